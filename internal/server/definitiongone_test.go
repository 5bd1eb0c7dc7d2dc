package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// soon waits until something is so.
func soon(t *testing.T, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never came about")
		}
	}
}

// A definition with the name of a built-in kind, in a version that is not built in, takes nothing of that kind with it when it is deleted.
func TestDefinitionOfABuiltinKind(t *testing.T) {
	t.Parallel()
	admin := withCustom(t).Config().Transport
	const definitions, services = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/apiregistration.k8s.io/v1/apiservices"
	const definition = `{"metadata":{"name":"apiservices.apiregistration.k8s.io","annotations":{"api-approved.kubernetes.io":"unapproved, test"}},"spec":{"group":"apiregistration.k8s.io","scope":"Cluster",
		"names":{"plural":"apiservices","kind":"APIService"},"versions":[{"name":"v2","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`
	for _, c := range []struct {
		method, path, body string
		code               int
	}{
		{"GET", services, "", 200}, {"POST", definitions, definition, 201}, {"GET", services, "", 200},
		{"DELETE", definitions + "/apiservices.apiregistration.k8s.io", "", 200},
	} {
		if code, body := said(t, admin, c.method, c.path, "application/json", c.body); code != c.code {
			t.Fatalf("%s %s: %d %s", c.method, c.path, code, body)
		}
	}
	soon(t, func() bool {
		code, _ := said(t, admin, "GET", definitions+"/apiservices.apiregistration.k8s.io", "", "")
		return code == http.StatusNotFound
	})
	if code, body := said(t, admin, "GET", services, "", ""); code != http.StatusOK || !strings.Contains(body, `"v1.apps"`) {
		t.Errorf("API services: %d %s", code, body)
	}
}

// A watch of custom resources sees them go with their definition, and then ends.
func TestWatchSeesADefinitionGo(t *testing.T) {
	t.Parallel()
	admin := withCustom(t).Config().Transport
	const definitions, things = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/gone.example.com/v1/things"
	const definition = `{"metadata":{"name":"things.gone.example.com"},"spec":{"group":"gone.example.com","scope":"Cluster",
		"names":{"plural":"things","kind":"Thing"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`
	if code, body := said(t, admin, "POST", definitions, "application/json", definition); code != http.StatusCreated {
		t.Fatal(code, body)
	}
	soon(t, func() bool {
		code, _ := said(t, admin, "POST", things, "application/json", `{"apiVersion":"gone.example.com/v1","kind":"Thing","metadata":{"name":"a"}}`)
		return code == http.StatusCreated
	})
	r, err := http.NewRequestWithContext(t.Context(), "GET", "https://kanzen"+things+"?watch=1", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := admin.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if code, body := said(t, admin, "DELETE", definitions+"/things.gone.example.com", "", ""); code != http.StatusOK {
		t.Fatal(code, body)
	}
	events, err := io.ReadAll(answer.Body)
	if err != nil || !strings.Contains(string(events), `"type":"DELETED"`) || strings.Contains(string(events), `"type":"ERROR"`) {
		t.Errorf("%s (%v)", events, err)
	}
}
