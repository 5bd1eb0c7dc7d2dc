package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// TestDefinitionCost says what the schema of a definition costs: nothing before it is needed, and then its compilation and each check, of objects that
// are refused too.
func TestDefinitionCost(t *testing.T) {
	t.Parallel()
	s := start(t)
	const name, things = "things.cost.example.com", "/apis/cost.example.com/v1/things"
	const definition = `{"metadata":{"name":"` + name + `"},"spec":{"group":"cost.example.com","scope":"Cluster","names":{"plural":"things","kind":"Thing"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"n":{"type":"integer","x-kubernetes-validations":[{"rule":"self < 3"}]}}}}}]}}`
	ask := func(method, path, body string, wanted int) []byte {
		t.Helper()
		return do(t, s, method, path, "application/json", "", []byte(body), wanted)
	}
	cost := func() (d v1alpha1.Definition) {
		t.Helper()
		if err := json.Unmarshal(ask("GET", "/apis/flightrecorder.kanzen.io/v1alpha1/definitions/"+name, "", http.StatusOK), &d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition, http.StatusCreated)
	for end := time.Now().Add(30 * time.Second); !strings.HasPrefix(answers(s, "admin", "GET", things), "200"); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is never served")
		}
	}
	if d := cost(); d.CompileTime.Duration != 0 || d.Checks != 0 || d.MeanCheck() != 0 {
		t.Errorf("of nothing: %+v", d)
	}
	ask("POST", things, `{"apiVersion":"cost.example.com/v1","kind":"Thing","metadata":{"name":"a"},"n":1}`, http.StatusCreated)
	ask("PUT", things+"/a", `{"apiVersion":"cost.example.com/v1","kind":"Thing","metadata":{"name":"a"},"n":2}`, http.StatusUnprocessableEntity) // no revision
	ask("POST", things, `{"apiVersion":"cost.example.com/v1","kind":"Thing","metadata":{"name":"b"},"n":4}`, http.StatusUnprocessableEntity)
	var d v1alpha1.Definition
	for end := time.Now().Add(10 * time.Second); d.Checks < 2 && time.Now().Before(end); time.Sleep(20 * time.Millisecond) { // the list is made once in a while
		d = cost()
	}
	if d.CompileTime.Duration <= 0 || d.Checks != 2 || d.CheckTime.Duration < d.MeanCheck() || d.MeanCheck() <= 0 {
		t.Errorf("of two objects: %+v", d)
	}
}
