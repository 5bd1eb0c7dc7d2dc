package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	historyv1 "github.com/kanzen-io/kanzen/internal/engine/history/v1"
)

// past is a server with a secret and a config map whose value at a moment was another one, two pages of config maps, and a history.
func past(w http.ResponseWriter, r *http.Request) {
	encode := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	value, at := "canary-now", r.URL.Query().Has("at")
	if at {
		value = "canary-then"
	}
	object := func(name string, number int64) map[string]any {
		return map[string]any{"metadata": map[string]any{"namespace": "default", "name": name, "uid": name, "resourceVersion": fmt.Sprint(number)}, "data": map[string]any{"k": value, "n": number}}
	}
	switch {
	case r.URL.Path == "/api":
		kind := func(plural, singular, kind string) apidiscoveryv2.APIResourceDiscovery {
			return apidiscoveryv2.APIResourceDiscovery{Resource: plural, SingularResource: singular, Scope: "Namespaced", Verbs: []string{"list", "get"}, ResponseKind: &metav1.GroupVersionKind{Version: "v1", Kind: kind}}
		}
		encode(apidiscoveryv2.APIGroupDiscoveryList{Items: []apidiscoveryv2.APIGroupDiscovery{{Versions: []apidiscoveryv2.APIVersionDiscovery{{Version: "v1",
			Resources: []apidiscoveryv2.APIResourceDiscovery{kind("secrets", "secret", "Secret"), kind("configmaps", "configmap", "ConfigMap")}}}}}})
	case r.URL.Path == "/apis":
		encode(apidiscoveryv2.APIGroupDiscoveryList{})
	case r.URL.Query().Has("revisions"):
		encode(historyv1.RevisionList{TypeMeta: metav1.TypeMeta{Kind: "RevisionList"}, Items: []historyv1.Revision{{Operation: historyv1.Updated, ResourceVersion: "2", Name: "s",
			Changes: []historyv1.FieldChange{{Path: "data.k", Old: "canary-then", New: "canary-now"}}}}})
	case strings.HasSuffix(r.URL.Path, "/configmaps") && r.URL.Query().Has("continue"):
		encode(map[string]any{"items": []any{object("same", 2)}})
	case strings.HasSuffix(r.URL.Path, "/configmaps"):
		number := int64(1<<53 + 1)
		if at {
			number--
		}
		encode(map[string]any{"metadata": map[string]any{"continue": "more"}, "items": []any{object("large", number)}})
	case strings.Contains(r.URL.Path, "/configmaps/"):
		o := object("m", 1)
		o["kind"] = "ConfigMap"
		encode(o)
	default:
		o := object("s", 1)
		o["kind"] = "Secret"
		encode(o)
	}
}

// No command that tells of the fields of a secret tells their values, as text or as JSON.
func TestFieldsOfSecrets(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(past))
	defer server.Close()
	for _, args := range [][]string{{"history", "secret/s"}, {"blame", "secret/s"}, {"diff", "secret/s@2h"}, {"diff", "secret/s", "--at", "2h"}} {
		for _, format := range []string{"", "json"} {
			got, err := said(t.Context(), append(args, "--kubeconfig", kubeconfigOf(t, server.URL), "-o", format)...)
			if err != nil || !strings.Contains(got, "data.k") || !strings.Contains(got, "(hidden)") || strings.Contains(got, "canary") {
				t.Errorf("%q -o %q: %s", args, format, got)
			}
		}
	}
	// Of two kinds, that of the secret is hidden.
	for args, want := range map[string]string{"secret/s@2h configmap/m": "(hidden) → \"canary-now\"", "configmap/m@2h secret/s": "\"canary-then\" → (hidden)"} {
		got, err := said(t.Context(), append(append([]string{"diff"}, strings.Fields(args)...), "--kubeconfig", kubeconfigOf(t, server.URL))...)
		if err != nil || !strings.Contains(got, want) {
			t.Errorf("diff %s: %s", args, got)
		}
	}
}

// Lists are compared in all of their pages, and numbers in all of their bits. Of what has not been written since, nothing is compared.
func TestDiffOfLists(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(past))
	defer server.Close()
	got, err := said(t.Context(), "diff", "configmaps", "--at", "2h", "--kubeconfig", kubeconfigOf(t, server.URL))
	if err != nil || !strings.Contains(got, "data.n: 9007199254740992 → 9007199254740993") || strings.Contains(got, "same") || !strings.Contains(got, "1 changed") {
		t.Errorf("%s %v", got, err)
	}
}
