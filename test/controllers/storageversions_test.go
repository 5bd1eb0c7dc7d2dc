package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	versions = schema.GroupVersionResource{Group: "internal.apiserver.k8s.io", Version: "v1alpha1", Resource: "storageversions"}
	leases   = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
)

// TestStorageVersions ends servers that have told in which versions they store objects.
func TestStorageVersions(t *testing.T) {
	compare(t, "storageversions", "StorageVersionAPI=true", "internal.apiserver.k8s.io/v1alpha1=true", "storageversion-garbage-collector-controller", storageVersions)
}

func storageVersions(s *side) string {
	ctx := s.t.Context()
	lease := func(name, label string) {
		s.create(leases, "Lease", "{metadata: {name: "+name+", namespace: kube-system, labels: {"+label+"}}}")
	}
	lease("alive", "apiserver.kubernetes.io/identity: kube-apiserver")
	lease("dying", "apiserver.kubernetes.io/identity: kube-apiserver")
	lease("other", "a: b")
	told := func(name string, servers ...string) {
		var all []string
		for n, server := range servers {
			all = append(all, fmt.Sprintf("{apiServerID: %s, encodingVersion: test/v%d, decodableVersions: [test/v1, test/v2, test/v3], servedVersions: [test/v1]}", server, n+1))
		}
		common := ""
		if len(servers) == 1 {
			common = "commonEncodingVersion: test/v1, "
		}
		s.create(versions, "StorageVersion", "{metadata: {name: test."+name+"}, status: {"+common+"storageVersions: ["+strings.Join(all, ", ")+"], "+
			"conditions: [{type: AllEncodingVersionsEqual, status: 'False', reason: CommonEncodingVersionUnset, message: m, observedGeneration: 0, lastTransitionTime: '2026-01-01T00:00:00Z'}]}}")
	}
	told("gone", "gone")
	told("some", "alive", "gone")
	told("other", "alive", "other", "dying")
	told("last", "dying")
	told("all", "alive", "dying")
	told("stays", "alive")
	servers := func(name string) string {
		v, err := s.objects.Resource(versions).Get(ctx, "test."+name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return "none"
		}
		if err != nil {
			s.t.Fatal(err)
		}
		status := v.Object["status"].(map[string]any)
		for _, c := range status["conditions"].([]any) {
			condition := c.(map[string]any)
			condition["lastTransitionTime"] = condition["lastTransitionTime"] == "2026-01-01T00:00:00Z"
		}
		text, err := json.Marshal(status)
		if err != nil {
			s.t.Fatal(err)
		}
		return string(text)
	}
	has := func(name, server string) bool { return strings.Contains(servers(name), `"`+server+`"`) }
	s.await("what is gone is taken out", func(context.Context) (string, bool) {
		return "", servers("gone") == "none" && !has("some", "gone") && !has("other", "other")
	})
	if err := s.objects.Resource(leases).Namespace("kube-system").Delete(ctx, "dying", metav1.DeleteOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.await("what has died is taken out", func(context.Context) (string, bool) {
		return "", servers("last") == "none" && !has("other", "dying") && !has("all", "dying")
	})
	var out []string
	for _, name := range []string{"gone", "some", "other", "last", "all", "stays"} {
		out = append(out, name+" "+servers(name))
	}
	return strings.Join(out, "\n")
}
