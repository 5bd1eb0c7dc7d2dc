package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
)

// wish is a random write, as an item of a bundle and as a request.
type wish struct {
	verb, object, path, name string
	force                    bool
}

// wishes makes a sequence of random writes of a few objects: many of them meet, some are refused.
func wishes(r *rand.Rand) []wish {
	out := make([]wish, 1+r.IntN(4))
	for n := range out {
		namespace := []string{"one", "two"}[r.IntN(2)]
		w := wish{verb: []string{"apply", "apply", "apply", "create", "update", "delete"}[r.IntN(6)], name: []string{"a", "b", "c"}[r.IntN(3)], force: r.IntN(2) == 0}
		head := func(api, kind, more string) string {
			return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"namespace":%q}%s}`, api, kind, w.name, namespace, more)
		}
		switch r.IntN(6) {
		case 0, 1:
			w.path, w.object = "/api/v1/namespaces/"+namespace+"/configmaps", head("v1", "ConfigMap", fmt.Sprintf(`,"data":{"k":"%d"}`, r.IntN(3)))
		case 2:
			w.path, w.object = "/api/v1/namespaces/"+namespace+"/services", head("v1", "Service", fmt.Sprintf(`,"spec":{"ports":[{"port":%d}]}`, r.IntN(5)*79))
		case 3:
			w.path, w.object = "/api/v1/namespaces/"+namespace+"/resourcequotas", head("v1", "ResourceQuota", fmt.Sprintf(`,"spec":{"hard":{"configmaps":"%d"}}`, 1+r.IntN(3)))
		case 4:
			w.path, w.name, w.verb = "/api/v1/namespaces", namespace, "apply" // one that is deleted would take all others with it
			w.object = fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q,"labels":{"l":"%d"}}}`, namespace, r.IntN(2))
		case 5:
			w.path = "/apis/rbac.authorization.k8s.io/v1/namespaces/" + namespace + "/rolebindings"
			w.object = head("rbac.authorization.k8s.io/v1", "RoleBinding", fmt.Sprintf(`,"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":%q},
				"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"eve"}]`, []string{"view", "edit", "admin"}[r.IntN(3)]))
		}
		out[n] = w
	}
	return out
}

// alone sends a write as a request of its own, and returns its code and, of a refusal, its words.
func (w wish) alone(t *testing.T, rt http.RoundTripper) (code int, words string) {
	t.Helper()
	method, url, media, body := http.MethodPost, w.path+"?fieldManager=m", "application/json", w.object
	switch w.verb {
	case "apply":
		method, url, media = http.MethodPatch, w.path+"/"+w.name+fmt.Sprintf("?fieldManager=m&force=%t", w.force), "application/apply-patch+yaml"
	case "update":
		method, url = http.MethodPut, w.path+"/"+w.name+"?fieldManager=m"
	case "delete":
		method, url, body = http.MethodDelete, w.path+"/"+w.name, ""
	}
	code, answer := send(t, rt, method, url, media, body)
	if code < 300 {
		return code, ""
	}
	var status struct{ Message string }
	if err := json.Unmarshal(answer, &status); err != nil {
		t.Fatalf("%s: %v", answer, err)
	}
	return code, status.Message
}

func send(t *testing.T, rt http.RoundTripper, method, url, media, body string) (int, []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://kanzen"+url, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", media)
	resp, err := rt.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, answer
}

// TestBundleAsAlone carries random writes of users with many rights and few out twice: on a fork one after another, and on the server as
// a bundle. What is refused is the same, with the same words. If nothing is, the objects are the same afterwards; otherwise the server
// is as it was before.
func TestBundleAsAlone(t *testing.T) {
	seed := randomSeed()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	s := start(t)
	p := &Plane{}
	p.serving.Store(s)
	all := s.Transport(masters)
	for _, name := range []string{"one", "two"} {
		if code, answer := send(t, all, http.MethodPost, "/api/v1/namespaces", "application/json", fmt.Sprintf(`{"metadata":{"name":%q}}`, name)); code != http.StatusCreated {
			t.Fatalf("%s", answer)
		}
	}
	for _, o := range []string{
		`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"bundler"},"rules":[{"apiGroups":["bundle.kanzen.io"],"resources":["bundles"],"verbs":["create"]}]}`,
		`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"bundler"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"bundler"},
			"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"eve"}]}`,
	} {
		kind := "clusterroles"
		if strings.Contains(o, "RoleBinding") {
			kind = "clusterrolebindings"
		}
		if code, answer := send(t, all, http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/"+kind, "application/json", o); code != http.StatusCreated {
			t.Fatalf("%s", answer)
		}
	}
	eve := &user.DefaultInfo{Name: "eve", Groups: []string{user.AllAuthenticated}}
	refused, written := 0, 0
	rounds := 60
	if testing.Short() {
		rounds = 15
	}
	for range rounds {
		u := user.Info(masters)
		if r.IntN(2) == 0 {
			u = eve
		}
		f, err := p.Fork(t.Context(), ForkOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		wanted, before := wishes(r), contents(t, all)
		var items, want []string
		for n, w := range wanted {
			items = append(items, fmt.Sprintf(`{"verb":%q,"force":%t,"object":%s}`, w.verb, w.force && w.verb == "apply", w.object))
			if code, words := w.alone(t, f.Transport(u)); code >= 300 {
				want = append(want, fmt.Sprintf("spec.items[%d] %s", n, words))
			}
			if err := f.CatchUp(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		code, answer := send(t, s.Transport(u), http.MethodPost, bundlesPath+"?fieldManager=m", "application/json",
			`{"apiVersion":"bundle.kanzen.io/v1","kind":"Bundle","spec":{"items":[`+strings.Join(items, ",")+`]}}`)
		after := contents(t, all)
		if len(want) == 0 {
			written++
			if then := contents(t, f.Transport(masters)); code != http.StatusCreated || !reflect.DeepEqual(after, then) {
				t.Fatalf("as %s: %s\n%d %s\nis   %v\nwant %v", u.GetName(), strings.Join(items, "\n"), code, answer, after, then)
			}
		} else {
			refused++
			if got := causesOf(t, answer); code < 300 || !reflect.DeepEqual(got, want) || !reflect.DeepEqual(before, after) {
				t.Fatalf("as %s: %s\n%d\ngot  %q\nwant %q\nis  %v\nwas %v", u.GetName(), strings.Join(items, "\n"), code, got, want, after, before)
			}
		}
		if err := f.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d bundles were written, %d refused", written, refused)
	if written < rounds/15 || refused < rounds/15 {
		t.Errorf("%d written and %d refused: this proves little", written, refused)
	}
}

// causesOf are the refusals of a bundle's items: their places and words.
func causesOf(t *testing.T, answer []byte) (out []string) {
	t.Helper()
	var status struct {
		Details struct {
			Causes []struct{ Field, Message string }
		}
	}
	if err := json.Unmarshal(answer, &status); err != nil {
		t.Fatalf("%s: %v", answer, err)
	}
	for _, c := range status.Details.Causes {
		_, words, _ := strings.Cut(c.Message, ": ")
		out = append(out, c.Field+" "+words)
	}
	return out
}

// contents returns what the objects of the test's namespaces say, without what differs with each write.
func contents(t *testing.T, rt http.RoundTripper) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, path := range []string{"/api/v1/namespaces", "/api/v1/configmaps", "/api/v1/services", "/api/v1/resourcequotas", "/apis/rbac.authorization.k8s.io/v1/rolebindings"} {
		_, answer := send(t, rt, http.MethodGet, path, "", "")
		var list struct{ Items []map[string]any }
		if err := json.Unmarshal(answer, &list); err != nil {
			t.Fatalf("%s: %v", answer, err)
		}
		for _, o := range list.Items {
			meta := o["metadata"].(map[string]any)
			name := fmt.Sprint(path, " ", meta["namespace"], "/", meta["name"])
			for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "deletionTimestamp"} {
				delete(meta, field)
			}
			if spec, ok := o["spec"].(map[string]any); ok {
				delete(spec, "clusterIP")
				delete(spec, "clusterIPs")
			}
			text, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			out[name] = string(text)
		}
	}
	return out
}
