package server

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
)

// TestRecorderTellsMessages has writes refused whose messages quote what was sent, and asks for them as those who were refused, who may
// get or only create the object, and who may do neither.
func TestRecorderTellsMessages(t *testing.T) {
	alone(t, testing.Short())
	s := start(t)
	const maps, secrets, history = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/secrets", "/apis/flightrecorder.kanzen.io/v1alpha1/objecthistories"
	rule := func(resource string, verbs string) string {
		return fmt.Sprintf(`{"apiGroups":["","flightrecorder.kanzen.io"],"resources":[%q],"verbs":[%s]}`, resource, verbs)
	}
	recorder := rule("requests", `"get","list"`) + "," + rule("objecthistories", `"create"`)
	for name, rules := range map[string]string{
		"refused": recorder + "," + rule("configmaps", `"create"`) + "," + rule("secrets", `"create"`), "creates": recorder + "," + rule("configmaps", `"create"`),
		"gets": recorder + "," + rule("configmaps", `"get"`) + "," + rule("secrets", `"get"`), "neither": recorder,
	} {
		do(t, s, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", "application/json", "", fmt.Appendf(nil, `{"metadata":{"name":%q},"rules":[%s]}`, name, rules), 201)
		do(t, s, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "application/json", "", fmt.Appendf(nil,
			`{"metadata":{"name":%q},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":%[1]q},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":%[1]q}]}`, name), 201)
	}
	as := func(name string) user.Info { return named(name) }
	for _, who := range []string{"refused", "creates", "gets", "neither"} {
		eventually(t, func() bool {
			code, _ := question{method: "GET", path: "/apis/flightrecorder.kanzen.io/v1alpha1/requests?limit=1"}.ask(s, as(who))
			return code == 200
		})
	}
	const invalid = `{"metadata":{"name":"never","labels":{"a":"canary !"}}}`
	eventually(t, func() bool {
		code, _ := question{method: "POST", path: maps, body: invalid}.ask(s, as("refused"))
		allowed, _ := question{method: "POST", path: secrets, body: invalid}.ask(s, as("refused"))
		return code == 422 && allowed == 422
	})
	if code, _ := (question{method: "POST", path: maps, body: `{"metadata":{"name":"x"}}`}).ask(s, as("neither")); code != 403 {
		t.Fatal(code)
	}
	ask := func(who, resource, name string) string {
		_, text := question{method: "POST", path: history, body: fmt.Sprintf(`{"spec":{"resource":%q,"namespace":"default","name":%q}}`, resource, name)}.ask(s, as(who))
		return string(text)
	}
	eventually(t, func() bool { return strings.Contains(ask("gets", "configmaps", "never"), `"entries"`) })
	for who, want := range map[string]bool{"refused": true, "gets": true, "creates": false, "neither": false} {
		if text := ask(who, "configmaps", "never"); strings.Contains(text, "canary !") != want || strings.Contains(text, "canary") != want {
			t.Errorf("the history for %s: %s", who, text)
		}
		if text := ask(who, "secrets", "never"); strings.Contains(text, "canary") {
			t.Errorf("the history of a secret for %s: %s", who, text)
		}
	}
	request := ""
	for _, name := range requestNames(t, s, "user=refused,code=422") {
		if text := string(do(t, s, "GET", "/apis/flightrecorder.kanzen.io/v1alpha1/requests/"+name, "", "", nil, 200)); strings.Contains(text, "canary !") {
			request = name
		}
	}
	for who, want := range map[string]bool{"refused": true, "gets": true, "creates": false, "neither": false} {
		code, text := question{method: "GET", path: "/apis/flightrecorder.kanzen.io/v1alpha1/requests/" + request}.ask(s, as(who))
		if strings.Contains(string(text), "canary") != want || code != 200 {
			t.Errorf("the request %q for %s: %d %.2000s", request, who, code, text)
		}
	}
	if text := do(t, s, "GET", "/apis/flightrecorder.kanzen.io/v1alpha1/requests", "", "", nil, 200); strings.Contains(string(text), "canary") {
		t.Error("a list tells messages")
	}
	// Who may do nothing leaves no history of the object, but may be asked for.
	if text := ask("gets", "configmaps", "x"); !strings.Contains(text, `"unnamed":true`) || !strings.Contains(text, `User \"neither\" cannot create resource`) {
		t.Error(text)
	}
	if text := ask("creates", "configmaps", "x"); strings.Contains(text, "neither") {
		t.Error(text)
	}
}
