package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	bundlev1 "github.com/kanzen-io/kanzen/internal/engine/bundle/v1"
)

// Node ports are kept in one key that is in no view: a bundle sees those that are taken, and takes its own.
func TestBundleNodePorts(t *testing.T) {
	alone(t, testing.Short())
	s := start(t)
	service := func(name string, port int) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":%q,"namespace":"default"},"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":%d}]}}`, name, port)
	}
	do(t, s, http.MethodPost, "/api/v1/namespaces/default/services", "application/json", "application/json", []byte(service("a", 30001)), http.StatusCreated)
	do(t, s, http.MethodPost, bundlesPath, "application/json", "application/json", bundleOf(t, "create "+service("b", 30001)), http.StatusUnprocessableEntity)
	var b bundlev1.Bundle
	if err := json.Unmarshal(do(t, s, http.MethodPost, bundlesPath, "application/json", "application/json", bundleOf(t, "create "+service("c", 30002), "create "+service("d", 30003)), http.StatusCreated), &b); err != nil {
		t.Fatal(err)
	}
	do(t, s, http.MethodPost, "/api/v1/namespaces/default/services", "application/json", "application/json", []byte(service("e", 30003)), http.StatusUnprocessableEntity)
	do(t, s, http.MethodPost, bundlesPath, "application/json", "application/json", bundleOf(t, "delete "+service("c", 30002)), http.StatusCreated)
	do(t, s, http.MethodPost, "/api/v1/namespaces/default/services", "application/json", "application/json", []byte(service("f", 30002)), http.StatusCreated)
}
