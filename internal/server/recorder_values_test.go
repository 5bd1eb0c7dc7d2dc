package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
)

// held is a kind of objects that hold values.
type held struct {
	group, resource, path, name string
	object                      string // its name and the canary are filled in
}

// canary is in each value of an object of a kind.
func (h held) canary() string { return "cnry-" + h.resource }

// Values stand in fields that are named like credentials, in such as are not, in keys' places, and in names of items.
const credentials = `"password":"%[2]s-1-%[3]d","DB_PASS":"%[2]s-2-%[3]d","pwd":"%[2]s-3-%[3]d","authorization":"Basic %[2]s-%[3]d","dsn":"postgres://u:%[2]s-%[3]d@h/db",` +
	`"token":"%[2]s-4-%[3]d","plain":"%[2]s-5-%[3]d"`

func holders() []held {
	annotations := `"annotations":{` + credentials + `}`
	meta := `{"metadata":{"name":"%[1]s",` + annotations + `},`
	return []held{
		{"", "configmaps", "/api/v1/namespaces/default/configmaps", "seen", meta + `"data":{` + credentials + `}}`},
		{"", "secrets", "/api/v1/namespaces/default/secrets", "seen", meta + `"stringData":{` + credentials + `}}`},
		{"", "services", "/api/v1/namespaces/default/services", "seen", meta + `"spec":{"type":"ExternalName","externalName":"%[2]s.%[3]d"}}`},
		{"", "serviceaccounts", "/api/v1/namespaces/default/serviceaccounts", "seen", meta + `"secrets":[{"name":"%[2]s-%[3]d"}]}`},
		{"", "namespaces", "/api/v1/namespaces", "seen", `{"metadata":{"name":"%[1]s",` + annotations + `}}`},
		{"", "podtemplates", "/api/v1/namespaces/default/podtemplates", "seen", meta + `"template":{"metadata":{"labels":{"a":"%[2]s-%[3]d"}},"spec":{"containers":[{"name":"%[2]s-%[3]d",
			"image":"%[2]s:%[3]d","args":["%[2]s-%[3]d"],"env":[{"name":"PASSWORD","value":"%[2]s-%[3]d"}]}]}}}`},
		{"apps", "deployments", "/apis/apps/v1/namespaces/default/deployments", "seen", meta + `"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b","c":"%[2]s-%[3]d"}},
			"spec":{"containers":[{"name":"c","image":"%[2]s:%[3]d","env":[{"name":"PASSWORD","value":"%[2]s-%[3]d"}]}]}}}}`},
		{"example.com", "widgets", "/apis/example.com/v1/namespaces/default/widgets", "seen", `{"apiVersion":"example.com/v1","kind":"Widget",` + meta[1:] + `"spec":{` + credentials + `,"list":[{"name":"%[2]s-item-%[3]d","v":"%[2]s-%[3]d"}],"deep":{` + credentials + `}}}`},
	}
}

// TestRecorderTellsNoValues changes objects of many kinds, and asks the recorder all there is to ask as users with one
// right each, and as users who may also get one of the kinds: no answer has a value of an object that its reader may not
// get, and who may get the object sees what was changed in it.
func TestRecorderTellsNoValues(t *testing.T) {
	if testing.Short() {
		t.Skip("no goroutines meet here, and the race detector makes it fifty times slower")
	}
	s := start(t)
	do(t, s, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/json", "", []byte(`{"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com",
		"scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},"versions":[{"name":"v1","served":true,"storage":true,
		"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`), 201)
	eventually(t, func() bool {
		code, _ := question{method: "GET", path: "/apis/example.com/v1/widgets"}.ask(s, masters)
		return code == 200
	})
	all := holders()
	for _, h := range all {
		do(t, s, "POST", h.path, "application/json", "", fmt.Appendf(nil, h.object, h.name, h.canary(), 0), 201)
		for n := range 2 {
			do(t, s, "PATCH", h.path+"/"+h.name, "application/merge-patch+json", "", fmt.Appendf(nil, h.object, h.name, h.canary(), n+1), 200)
		}
		// Refused: for what it is called, and for what is in it.
		do(t, s, "POST", h.path, "application/json", "", fmt.Appendf(nil, h.object, h.name, h.canary(), 9), 409)
		do(t, s, "PATCH", h.path+"/"+h.name, "application/merge-patch+json", "", fmt.Appendf(nil, `{"metadata":{"labels":{"%s !":"%[1]s !"},"annotations":{"%[1]s !":"x"}}}`, h.canary()), 422)
	}

	grant := func(name string, rules ...string) user.Info {
		do(t, s, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", "application/json", "", fmt.Appendf(nil, `{"metadata":{"name":%q},"rules":[%s]}`, name, strings.Join(rules, ",")), 201)
		do(t, s, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "application/json", "",
			fmt.Appendf(nil, `{"metadata":{"name":%q},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":%q},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":%q}]}`, name, name, name), 201)
		return named(name)
	}
	rule := func(group, resource, verb string) string {
		return fmt.Sprintf(`{"apiGroups":[%q],"resources":[%q],"verbs":[%q]}`, group, resource, verb)
	}
	readers := map[string]user.Info{"": named("nobody")} // by the resource that they may get
	single := []user.Info{named("nobody")}
	asked := questions()
	for _, resource := range recorderKinds() {
		for _, verb := range []string{"get", "list", "watch", "create"} {
			single = append(single, grant("one-"+verb+"-"+resource, rule("flightrecorder.kanzen.io", resource, verb)))
		}
		asked = append(asked, question{"GET", "/apis/flightrecorder.kanzen.io/v1alpha1/" + resource + "?watch=1&timeoutSeconds=1", "", "watch", resource})
	}
	everything := rule("flightrecorder.kanzen.io", "*", "*")
	single = append(single, grant("all-of-the-recorder", everything))
	for _, h := range all {
		readers[h.resource] = grant("gets-"+h.resource, everything, rule(h.group, h.resource, "get"))
		single = append(single, grant("lists-"+h.resource, everything, rule(h.group, h.resource, "list")),
			grant("gets-another-of-"+h.resource, everything, fmt.Sprintf(`{"apiGroups":[%q],"resources":[%q],"verbs":["get"],"resourceNames":["another"]}`, h.group, h.resource)))
		asked = append(asked,
			question{"POST", "/apis/flightrecorder.kanzen.io/v1alpha1/objecthistories", fmt.Sprintf(`{"spec":{"group":%q,"resource":%q,"namespace":"default","name":%q}}`, h.group, h.resource, h.name), "create", "objecthistories"},
			question{"GET", "/console/data/history?namespace=default&group=" + h.group + "&resource=" + h.resource + "&name=" + h.name, "", "create", "objecthistories"})
	}
	eventually(t, func() bool {
		code, _ := question{method: "GET", path: all[len(all)-1].path + "/seen"}.ask(s, readers[all[len(all)-1].resource])
		return code == 200
	})
	for _, name := range requestNames(t, s, "user=admin,name=seen") {
		asked = append(asked, question{"GET", "/apis/flightrecorder.kanzen.io/v1alpha1/requests/" + name, "", "get", "requests"}, question{"GET", "/console/data/requests/" + name, "", "get", "requests"})
	}

	seen := map[string]int{}
	check := func(u user.Info, may string) {
		for _, q := range asked {
			_, one := strings.CutPrefix(u.GetName(), "one-")
			if one && !strings.HasSuffix(u.GetName(), "-"+q.resource) || q.verb == "watch" && (!one || !strings.Contains(q.path, "timeoutSeconds")) {
				continue // TestRecorderTellsOnlyWhatIsGranted has it; or a watch would take its time
			}
			text := q.until(s, u)
			for _, h := range all {
				if !bytes.Contains(text, []byte(h.canary())) {
					continue
				}
				if h.resource != may || h.resource == "secrets" && bytes.Contains(text, []byte(h.canary()+"-")) { // values of Secrets are told to nobody
					t.Errorf("%s: %s %s tells a value of %s: %.2000s", u.GetName(), q.method, q.path, h.resource, text)
				}
				if q.verb == "list" {
					t.Errorf("%s: a list tells a value: %s %s", u.GetName(), q.method, q.path)
				}
				seen[h.resource]++
			}
		}
	}
	for _, u := range single {
		check(u, "")
	}
	for may, u := range readers {
		check(u, may)
	}
	for _, h := range all {
		if h.resource != "secrets" && seen[h.resource] < 4 {
			t.Errorf("who may get %s is told what changed in %d answers", h.resource, seen[h.resource])
		}
	}
}

func requestNames(t *testing.T, s *server, selector string) []string {
	var list struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	if err := json.Unmarshal(do(t, s, "GET", "/apis/flightrecorder.kanzen.io/v1alpha1/requests?fieldSelector="+url.QueryEscape(selector), "", "", nil, 200), &list); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, i := range list.Items {
		out = append(out, i.Metadata.Name)
	}
	return out
}

// until asks a question, and of an answer without end takes what has come first.
func (q question) until(s *server, u user.Info) []byte {
	if q.verb != "watch" {
		_, text := q.ask(s, u)
		return text
	}
	ctx, cancel := context.WithTimeout(inprocess.WithUser(context.Background(), u), 10*time.Second)
	defer cancel()
	w := &untilFirst{ResponseRecorder: httptest.NewRecorder(), end: cancel}
	s.handler.ServeHTTP(w, httptest.NewRequest(q.method, q.path, nil).WithContext(ctx))
	return w.Body.Bytes()
}

type untilFirst struct {
	*httptest.ResponseRecorder
	end func()
}

func (w *untilFirst) Write(b []byte) (int, error) {
	n, err := w.ResponseRecorder.Write(b)
	if w.Body.Len() > 0 {
		w.end()
	}
	return n, err
}

// TestHiddenValues has a definition hide the values of its objects from the recorder, from its annotation on.
func TestHiddenValues(t *testing.T) {
	s := start(t)
	defineWidgets(t, s)
	const path = "/apis/example.com/v1/namespaces/default/widgets"
	write := func(value string) {
		do(t, s, "PATCH", path+"/w", "application/merge-patch+json", "", fmt.Appendf(nil, `{"spec":{"tenant":%q}}`, value), 200)
	}
	history := func() []byte {
		return do(t, s, "POST", "/apis/flightrecorder.kanzen.io/v1alpha1/objecthistories", "application/json", "",
			[]byte(`{"spec":{"group":"example.com","resource":"widgets","namespace":"default","name":"w"}}`), 201)
	}
	do(t, s, "POST", path, "application/json", "", []byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"tenant":"canary"}}`), 201)
	write("canary-seen")
	eventually(t, func() bool { return bytes.Contains(history(), []byte("canary-seen")) })
	do(t, s, "PATCH", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com", "application/merge-patch+json", "",
		[]byte(`{"metadata":{"annotations":{"flightrecorder.kanzen.io/values":"hidden"}}}`), 200)
	if err := s.base.objects.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	write("canary-first")
	write("canary-second")
	do(t, s, "PATCH", path+"/w", "application/merge-patch+json", "", []byte(`{"spec":{"size":7}}`), 200)
	eventually(t, func() bool { return bytes.Contains(history(), []byte("spec.size")) })
	if text := history(); bytes.Contains(text, []byte("canary-first")) || bytes.Contains(text, []byte("canary-second")) {
		t.Errorf("values are told: %s", text)
	}
}
