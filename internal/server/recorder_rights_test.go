package server

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
)

// question is one question to the recorder, and the right that it takes.
type question struct {
	method, path, body string
	verb, resource     string
}

func (q question) ask(s *server, u user.Info) (int, []byte) {
	r := httptest.NewRequest(q.method, q.path, strings.NewReader(q.body))
	if u != nil {
		r = r.WithContext(inprocess.WithUser(r.Context(), u))
	}
	r.Header.Set("Content-Type", "application/json")
	if q.method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	text, _ := io.ReadAll(w.Result().Body)
	return w.Code, text
}

// recorderKinds are the recorder's resources.
func recorderKinds() []string {
	return []string{"requests", "watches", "webhookstats", "deprecateduses", "trafficstats", "views", "controllers", "datastores", "prioritylevels", "definitions",
		"objecthistories", "accessexplanations"}
}

// questions are all that can be asked of the recorder's resources, at the API and through the console.
func questions() []question {
	const root = "/apis/flightrecorder.kanzen.io/v1alpha1/"
	history := `{"apiVersion":"flightrecorder.kanzen.io/v1alpha1","kind":"ObjectHistory","spec":{"resource":"secrets","namespace":"default","name":"canary"}}`
	access := `{"apiVersion":"flightrecorder.kanzen.io/v1alpha1","kind":"AccessExplanation","spec":{"user":"admin","resourceAttributes":{"verb":"get","resource":"secrets"}}}`
	var out []question
	for _, r := range recorderKinds() {
		body := map[string]string{"objecthistories": history, "accessexplanations": access}[r]
		out = append(out,
			question{"GET", root + r, "", "list", r}, question{"GET", root + r + "?limit=1&fieldSelector=metadata.name%3Dr1", "", "list", r}, question{"GET", root + r + "/r1", "", "get", r},
			question{"POST", root + r, body, "create", r}, question{"PUT", root + r + "/r1", body, "update", r}, question{"PATCH", root + r + "/r1", "{}", "patch", r},
			question{"DELETE", root + r + "/r1", "", "delete", r}, question{"DELETE", root + r, "", "deletecollection", r})
		// Nobody here has the right to watch, so that none of these goes on.
		for _, path := range []string{root + r + "?watch=1", root + r + "?watch=true&limit=1", root + "watch/" + r, root + r + "?watch=1&fieldSelector=metadata.name%3Dr1"} {
			out = append(out, question{"GET", path, "", "watch", r})
		}
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			out = append(out, question{method, "/console/data/" + r, body, "list", r}, question{method, "/console/data/" + r + "/r1", body, "get", r})
		}
	}
	return append(out, question{"GET", "/console/data/history?resource=secrets&namespace=default&name=canary", "", "create", "objecthistories"},
		question{"GET", "/console/data/history?resource=configmaps&namespace=default&name=seen", "", "create", "objecthistories"})
}

// TestRecorderTellsOnlyWhatIsGranted asks every question as users of whom each has one right: just that is answered. No answer
// has what was secret.
func TestRecorderTellsOnlyWhatIsGranted(t *testing.T) {
	s := start(t)
	const secret = "q7-canary-of-a-secret"
	do(t, s, "POST", "/api/v1/namespaces/default/secrets", "application/json", "", fmt.Appendf(nil, `{"metadata":{"name":"canary"},"stringData":{"k":%q}}`, secret), 201)
	do(t, s, "PATCH", "/api/v1/namespaces/default/secrets/canary", "application/merge-patch+json", "", fmt.Appendf(nil, `{"stringData":{"k":%q}}`, secret+"-2"), 200)
	do(t, s, "POST", "/api/v1/namespaces/default/configmaps", "application/json", "", fmt.Appendf(nil, `{"metadata":{"name":"seen"},"data":{"password":%q}}`, secret), 201)
	do(t, s, "POST", "/api/v1/namespaces/default/configmaps", "application/json", "", fmt.Appendf(nil, `{"metadata":{"name":"seen","labels":{"a":"%s !"}}}`, secret), 422)
	do(t, s, "GET", "/api/v1/namespaces/default/configmaps/missing?token="+secret, "", "", nil, 404)

	users := map[string]user.Info{"anonymous": nil, "nobody": named("nobody")}
	rights := map[string][2]string{}
	grant := func(name, groups, resource, verb string) {
		do(t, s, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", "application/json", "",
			fmt.Appendf(nil, `{"metadata":{"name":%q},"rules":[{"apiGroups":[%q],"resources":[%q],"verbs":[%q]}]}`, name, groups, resource, verb), 201)
		do(t, s, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "application/json", "",
			fmt.Appendf(nil, `{"metadata":{"name":%q},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":%q},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":%q}]}`, name, name, name), 201)
		users[name], rights[name] = named(name), [2]string{verb, resource}
	}
	all := questions()
	for _, q := range all {
		name := "only-" + q.verb + "-" + q.resource
		if rights[name] == [2]string{} && slices.Contains([]string{"get", "list", "create"}, q.verb) {
			grant(name, "flightrecorder.kanzen.io", q.resource, q.verb)
		}
	}
	grant("secrets", "", "secrets", "get")
	eventually(t, func() bool {
		code, _ := question{method: "GET", path: "/api/v1/namespaces/default/secrets/canary"}.ask(s, users["secrets"])
		return code == 200
	})

	answered, enough, share := 0, 20, 1
	if testing.Short() { // each asks another third of the questions
		enough, share = 4, 3
	}
	for n, name := range slices.Sorted(maps.Keys(users)) {
		u := users[name]
		for i, q := range all {
			if (n+i)%share != 0 {
				continue
			}
			code, text := q.ask(s, u)
			granted := rights[name] == [2]string{q.verb, q.resource}
			if !granted && code < 400 {
				t.Errorf("%s may not %s %s: %s %s answers %d %s", name, q.verb, q.resource, q.method, q.path, code, text)
			}
			if granted && strings.HasPrefix(q.path, "/apis/") && q.body == "" && (code == 401 || code == 403) {
				t.Errorf("%s may %s %s: %s %s answers %d %s", name, q.verb, q.resource, q.method, q.path, code, text)
			}
			if granted && code < 300 {
				answered++
			}
			secretFree(t, name+" "+q.method+" "+q.path, text, secret)
			if strings.Contains(q.body, "ObjectHistory") && code < 400 || strings.Contains(q.path, "/history") && code < 400 {
				t.Errorf("%s sees what was done to an object that it may not get: %d %s", name, code, text)
			}
		}
	}
	if answered < enough {
		t.Errorf("only %d questions were answered", answered)
	}
	for _, q := range all { // who may everything sees no secret either
		if q.verb == "watch" || q.resource == "objecthistories" && strings.Contains(q.body+q.path, "configmaps") { // the message of the refusal is his to read
			continue
		}
		_, text := q.ask(s, masters)
		secretFree(t, "an administrator: "+q.method+" "+q.path, text, secret)
	}
}

func named(name string) user.Info {
	return &user.DefaultInfo{Name: name, Groups: []string{"system:authenticated"}}
}

func secretFree(t *testing.T, what string, text []byte, secret string) {
	t.Helper()
	for _, s := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret))[:20]} {
		if bytes.Contains(text, []byte(s)) {
			t.Errorf("%s: the answer has a secret: %s", what, text)
		}
	}
}
