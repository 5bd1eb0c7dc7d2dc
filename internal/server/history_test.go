package server

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	historyv1 "github.com/kanzen-io/kanzen/internal/engine/history/v1"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/process"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/store"
)

const inDefault = "/api/v1/namespaces/default/"

// remembering is a control plane with a history, which can be stopped and started, and made to forget.
type remembering struct {
	*testing.T
	plane *Plane
	db    store.DB
}

func remember(t *testing.T, change func(*config.Config)) *remembering {
	cfg := config.Standalone()
	cfg.DataDir, cfg.UnsafeNoFsync, cfg.NoListener, cfg.Controllers, cfg.Engine = t.TempDir(), true, true, nil, config.EnginePebble
	change(&cfg)
	r := &remembering{T: t}
	on, plane := planeOf(t, &cfg, process.Given{Around: func(db store.DB) store.DB { r.db = db; return db }})
	r.plane = plane
	running(t, r.plane, on.Close)
	r.reached() // it begins once the server serves
	return r
}

func (r *remembering) server() *server { return r.plane.serving.Load() }

// reached waits until the history has everything that was written before, and returns the revision of that.
func (r *remembering) reached() int64 {
	r.Helper()
	head, err := r.db.Head(r.Context())
	if err == nil {
		err = r.server().history.Reach(r.Context(), head)
	}
	if err != nil {
		r.Fatal(err)
	}
	return head
}

func (r *remembering) do(method, path, body string, want int) []byte {
	r.Helper()
	return do(r.T, r.server(), method, path, "application/json", "application/json", []byte(body), want)
}

// forgets has the log compacted, and the plane started anew: what is answered now is from the history on disk.
func (r *remembering) forgets() {
	r.Helper()
	err := r.db.Compact(r.Context(), r.reached()) // no later: the server writes too, and the history must have what is compacted
	if err == nil {
		err = r.plane.Stop()
	}
	if err == nil {
		err = r.plane.Start(context.Background())
	}
	if err != nil {
		r.Fatal(err)
	}
}

func encrypting(t *testing.T) func(*config.Config) {
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	text := `{"apiVersion":"apiserver.config.k8s.io/v1","kind":"EncryptionConfiguration","resources":[{"resources":["secrets"],"providers":[{"secretbox":{"keys":[{"name":"a","secret":"MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}]}}]}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(c *config.Config) { c.EncryptionConfigFile = file }
}

// TestPast writes objects at random, and keeps the answers of lists. Once the log has forgotten, ?at= must give the same answers.
func TestPast(t *testing.T) {
	r := remember(t, encrypting(t))
	r.do("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widgetsDefinition, 201)
	paths := []string{inDefault + "configmaps", inDefault + "secrets", "/apis/past.test/v1/namespaces/default/widgets"}
	eventually(t, func() bool { code, _ := said(t, r.server(), "admin", "GET", paths[2], ""); return code == 200 })
	answers := map[string]string{} // by path with ?at=
	begun := revision(r.do("GET", paths[0], "", 200))
	random := rand.New(rand.NewPCG(1, 1))
	writes, forks := 150, 20
	if testing.Short() {
		writes, forks = 40, 5
	}
	for n := range writes {
		path := paths[random.IntN(len(paths))]
		name := fmt.Sprint("o", random.IntN(6))
		body := fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"n":"%d"}},"data":{"a":"%d"}}`, name, n%3, n)
		if strings.HasSuffix(path, "secrets") {
			body = fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"n":"%d"}},"stringData":{"a":"value-%d"}}`, name, n%3, n)
		} else if strings.HasSuffix(path, "widgets") {
			body = fmt.Sprintf(`{"apiVersion":"past.test/v1","kind":"Widget","metadata":{"name":%q,"labels":{"n":"%d"}},"spec":{"size":%d}}`, name, n%3, n)
		}
		if random.IntN(3) == 0 {
			said(t, r.server(), "admin", "DELETE", path+"/"+name, "")
		} else if code, _ := said(t, r.server(), "admin", "POST", path, body); code == 409 {
			said(t, r.server(), "admin", "PATCH", path+"/"+name, body)
		}
		for _, path := range paths {
			list := r.do("GET", path, "", 200)
			answers[path+"?at="+revision(list)] = string(list)
		}
		few := r.do("GET", paths[0]+"?labelSelector=n%3D1", "", 200)
		answers[paths[0]+"?labelSelector=n%3D1&at="+revision(few)] = string(few)
	}
	r.forgets()
	for path, want := range answers {
		if got := string(r.do("GET", path, "", 200)); got != want {
			t.Fatalf("%s is\n%s\nand not\n%s", path, got, want)
		}
	}
	// Pages, single objects, and events from there on.
	for path, want := range answers {
		if strings.Contains(path, "labelSelector") {
			continue
		}
		var list, page, all struct {
			Metadata struct{ Continue string }
			Items    []json.RawMessage
		}
		if err := json.Unmarshal([]byte(want), &list); err != nil {
			t.Fatal(err)
		}
		for next := ""; ; next = "&continue=" + page.Metadata.Continue {
			page.Metadata.Continue, page.Items = "", nil
			if err := json.Unmarshal(r.do("GET", path+"&limit=2"+next, "", 200), &page); err != nil {
				t.Fatal(err)
			}
			if all.Items = append(all.Items, page.Items...); page.Metadata.Continue == "" {
				break
			}
		}
		if len(all.Items) != len(list.Items) {
			t.Errorf("%s: %d in pages, not %d", path, len(all.Items), len(list.Items))
		}
		objects, at, _ := strings.Cut(path, "?")
		for n, item := range list.Items {
			if !bytes.Equal(item, all.Items[n]) {
				t.Errorf("%s: a page has %s, not %s", path, all.Items[n], item)
			}
			if strings.HasSuffix(objects, "widgets") {
				continue // an item of a list has its kind in the same place
			}
			one := r.do("GET", objects+"/"+nameOf(item)+"?"+at, "", 200)
			if _, got, _ := strings.Cut(string(one), `"metadata"`); !strings.HasSuffix(strings.TrimSpace(string(item)), strings.TrimSpace(got)) {
				t.Errorf("%s of %s is %s, not %s", nameOf(item), path, one, item)
			}
		}
	}
	for _, path := range paths {
		state := map[string]string{}
		stream := r.do("GET", path+"?watch=true&timeoutSeconds=1&at="+begun, "", 200)
		for d := json.NewDecoder(bytes.NewReader(stream)); d.More(); {
			var e struct {
				Type   string
				Object json.RawMessage
			}
			if err := d.Decode(&e); err != nil {
				t.Fatal(err)
			}
			if state[nameOf(e.Object)] = string(e.Object); e.Type == "DELETED" {
				delete(state, nameOf(e.Object))
			}
		}
		var list struct{ Items []json.RawMessage }
		if err := json.Unmarshal(r.do("GET", path, "", 200), &list); err != nil {
			t.Fatal(err)
		}
		for _, item := range list.Items {
			if revision(item) != revision([]byte(state[nameOf(item)])) {
				t.Errorf("%s: the events lead to %s, not %s", path, state[nameOf(item)], item)
			}
			delete(state, nameOf(item))
		}
		if len(state) > 0 {
			t.Errorf("%s: the events lead to %v too", path, state)
		}
	}
	// A fork of an earlier moment has what was there then.
	for path, want := range answers {
		objects, at, _ := strings.Cut(path, "?at=")
		if at == "" {
			continue
		}
		f, err := r.plane.Fork(t.Context(), ForkOptions{At: at})
		if err == nil {
			err = f.Start(context.Background())
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := do(t, f.serving.Load(), "GET", objects, "", "application/json", nil, 200); itemsOf(got) != itemsOf([]byte(want)) {
			t.Fatalf("a fork of %s has\n%s\nand not\n%s", at, got, want)
		}
		if err := f.Stop(); err != nil {
			t.Fatal(err)
		}
		if len(answers) > forks {
			for other := range answers {
				if delete(answers, other); len(answers) == forks {
					break
				}
			}
		}
	}
}

const widgetsDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.past.test"},"spec":{"group":"past.test","scope":"Namespaced",
	"names":{"plural":"widgets","kind":"Widget"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"integer"}}}}}}}]}}`

// headed are the fields of metadata that the tests look at.
type headed struct {
	Metadata struct{ Name, ResourceVersion string }
}

func revision(object []byte) string {
	var m headed
	_ = json.Unmarshal(object, &m)
	return m.Metadata.ResourceVersion
}

func nameOf(object []byte) string {
	var m headed
	_ = json.Unmarshal(object, &m)
	return m.Metadata.Name
}

func itemsOf(list []byte) string {
	_, items, _ := strings.Cut(string(list), `"items":`)
	return items
}

// said sends a request of a user, a patch as a merge patch, and returns the code and the answer.
func said(t *testing.T, s *server, who, method, path, body string) (int, string) {
	t.Helper()
	u := user.Info(named(who))
	if who == "admin" {
		u = masters
	}
	q := httptest.NewRequest(method, path, strings.NewReader(body))
	q = q.WithContext(inprocess.WithUser(q.Context(), u))
	q.Header.Set("Content-Type", "application/json")
	if method == "PATCH" {
		q.Header.Set("Content-Type", "application/merge-patch+json")
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, q)
	return w.Code, w.Body.String()
}

// TestRevisions asks who has changed what, with and without the right to know, for objects that are there, gone and forgotten.
func TestRevisions(t *testing.T) {
	alone(t, testing.Short())
	r := remember(t, func(*config.Config) {})
	granted(t, r.server(), "ann", "default", `{"apiGroups":[""],"resources":["configmaps"],"verbs":["get","list","watch","delete"]}`)
	path := inDefault + "configmaps/a"
	r.do("POST", inDefault+"configmaps", `{"metadata":{"name":"a"},"data":{"x":"1","password":"p"}}`, 201)
	do(t, r.server(), "PATCH", path+"?fieldManager=other", "application/merge-patch+json", "application/json", []byte(`{"data":{"x":"2"}}`), 200)
	r.do("DELETE", path, "", 200)
	r.do("POST", inDefault+"configmaps", `{"metadata":{"name":"a"},"data":{"x":"3"}}`, 201)
	if err := r.server().base.objects.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.forgets()
	told := func(who, path string) string {
		code, text := said(t, r.server(), who, "GET", path, "")
		if code != 200 {
			_, text, _ = strings.Cut(text, `"message":"`)
			text, _, _ = strings.Cut(text, `","reason`)
			return fmt.Sprint(code, " ", text)
		}
		var list historyv1.RevisionList
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatal(err)
		}
		out := ""
		for _, i := range list.Items {
			out += fmt.Sprint(i.Operation, " ", i.Name, " ", i.User, " ", i.Verb, " ", i.Managers, " ", i.Changes, "\n")
			if since := time.Since(i.Time.Time); since < 0 || since > time.Hour || i.UID == "" || who == "admin" && i.Request == "" {
				t.Errorf("%+v", i)
			}
		}
		return out
	}
	if got, want := told("admin", path+"?revisions=true"), "Created a admin create [bench] []\nDeleted a admin delete [] []\nUpdated a admin patch [bench other] [{data.x 1 2}]\nCreated a admin create [bench] []\n"; got != want {
		t.Errorf("an administrator is told\n%s", got)
	}
	if got, want := told("ann", inDefault+"configmaps?revisions=true&limit=3"), "Created a   [bench] []\nDeleted a   [] []\nUpdated a   [bench other] [{data.x 1 2}]\n"; got != want {
		t.Errorf("who may only read is told\n%s", got)
	}
	for question, want := range map[string]string{
		"GET " + path + "?at=yesterday":                                  `400 at: \"yesterday\" is neither`,
		"GET " + path + "?at=2h":                                         "410 at: the history does not reach back to 2h",
		"GET " + path + "?at=99999":                                      "504 Timeout: Too large resource version",
		"GET " + path + "?at=1s&resourceVersion=5":                       "400 at: resourceVersion says the same already",
		"DELETE " + path + "?at=1s":                                      "400 at: it is for get, list and watch",
		"GET " + inDefault + "configmaps?revisions=true&watch=true":      "400 revisions: changes are for get and list",
		"GET " + inDefault + "configmaps?revisions=yes":                  `400 revisions: \"yes\" is neither`,
		"GET " + inDefault + "secrets/a?revisions=true":                  "403 ",
		"GET " + inDefault + "secrets?at=1s":                             "403 ",
		"POST /apis/history.kanzen.io/v1/forgotten":                      "403 ",
		"GET " + inDefault + "configmaps?revisions=true&continue=x":      "400 revisions: selectors",
		"GET " + inDefault + "configmaps?labelSelector=a&revisions=true": "400 revisions: selectors",
	} {
		method, path, _ := strings.Cut(question, " ")
		code, text := said(t, r.server(), "ann", method, path, "")
		_, text, _ = strings.Cut(text, `"message":"`)
		if got := fmt.Sprint(code, " ", text); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", question, got, want)
		}
	}
	if code, text := said(t, r.server(), "admin", "GET", "/api/v1/events?at=1s", ""); code != 400 || !strings.Contains(text, "no history is kept of events") {
		t.Errorf("events: %d %s", code, text)
	}

	forget := `{"spec":{"resource":"configmaps","namespace":"default","name":"a"}}`
	if got := string(r.do("POST", "/apis/history.kanzen.io/v1/forgotten", forget, 201)); !strings.Contains(got, `"found":true`) {
		t.Error(got)
	}
	if got := told("admin", path+"?revisions=true"); strings.Count(got, "\n") != 1 || strings.Contains(got, "Deleted") {
		t.Errorf("what is told of a forgotten object: %s", got)
	}
	if now := string(r.do("GET", path, "", 200)); !strings.Contains(now, `"x":"3"`) {
		t.Errorf("the object itself is %s", now)
	}
	r.do("POST", "/apis/history.kanzen.io/v1/forgotten", `{"spec":{"resource":"nothing","name":"a"}}`, 400)
}

// TestPastOfOthers has somebody who may do everything in a namespace look for what an earlier one of that name held, in every way that there is:
// only who may read all namespaces may know. Nobody else may make a fork of an earlier moment either.
func TestPastOfOthers(t *testing.T) {
	alone(t, testing.Short())
	r := remember(t, func(*config.Config) {})
	granting := func(who string) {
		r.do("POST", "/api/v1/namespaces", `{"metadata":{"name":"shop"}}`, 201)
		if err := r.server().base.objects.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		granted(t, r.server(), who, "shop", `{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}`)
		r.do("POST", "/api/v1/namespaces/shop/secrets", fmt.Sprintf(`{"metadata":{"name":"token"},"stringData":{"of":"secret-of-%s"}}`, who), 201)
		if err := r.server().base.objects.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	granting("ann")
	before := revision(r.do("GET", "/api/v1/namespaces/shop/secrets", "", 200))
	for _, path := range []string{"/api/v1/namespaces/shop/secrets", rbacPath + "namespaces/shop/rolebindings", rbacPath + "namespaces/shop/roles"} {
		r.do("DELETE", path, "", 200)
	}
	r.do("DELETE", "/api/v1/namespaces/shop", "", 200)
	do(t, r.server(), "PUT", "/api/v1/namespaces/shop/finalize", "application/json", "application/json",
		[]byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"},"spec":{"finalizers":[]}}`), 200)
	granting("bob")
	between := revision(r.do("GET", "/api/v1/namespaces/shop/secrets", "", 200))
	r.forgets()
	said := func(who, method, path string) string {
		code, text := said(t, r.server(), who, method, path, "")
		return fmt.Sprint(code, " ", text)
	}
	const secrets = "/api/v1/namespaces/shop/secrets"
	old := base64.StdEncoding.EncodeToString([]byte("secret-of-ann"))
	for _, path := range []string{secrets + "?at=" + before, secrets + "/token?at=" + before, secrets + "?watch=true&timeoutSeconds=1&at=" + before,
		secrets + "?revisions=true", secrets + "/token?revisions=true", secrets + "/token?revisions=true&at=" + before, secrets + "?visible=true&at=" + before,
		"/api/v1/secrets?namespaces=shop&at=" + before, "/api/v1/secrets?visible=true&at=" + before, "/api/v1/secrets?visible=true&revisions=true", "/api/v1/secrets?at=" + before,
		"/api/v1/namespaces//secrets?at=" + before, "/api/v1/watch/namespaces/shop/secrets?timeoutSeconds=1&at=" + before} {
		if got := said("bob", "GET", path); strings.Contains(got, old) || strings.Contains(got, "secret-of-ann") {
			t.Errorf("%s tells bob of ann's namespace: %s", path, got)
		}
	}
	if got := said("bob", "GET", secrets+"/token?at="+before); !strings.HasPrefix(got, "403 ") || !strings.Contains(got, "an earlier one of its name") {
		t.Error(got)
	}
	// His own past is his, and administrators see all.
	if got := said("bob", "GET", secrets+"/token?at="+between); !strings.HasPrefix(got, "200 ") {
		t.Error(got)
	}
	if got := said("bob", "GET", secrets+"?revisions=true"); !strings.HasPrefix(got, "200 ") || strings.Count(got, "Created") != 1 {
		t.Error(got)
	}
	if got := said("admin", "GET", secrets+"/token?at="+before); !strings.Contains(got, old) {
		t.Error(got)
	}

	r.do("POST", rbacPath+"clusterroles", `{"metadata":{"name":"forks"},"rules":[{"nonResourceURLs":["/forks/*"],"verbs":["*"]}]}`, 201)
	r.do("POST", rbacPath+"clusterrolebindings", `{"metadata":{"name":"forks"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"forks"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"ann"}]}`, 201)
	if err := r.server().base.objects.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := said("ann", "POST", "/forks/then?at="+before); !strings.HasPrefix(got, "403 ") {
		t.Errorf("ann, who had rights then, makes a fork of then: %s", got)
	}
	if got := said("ann", "POST", "/forks/now"); !strings.HasPrefix(got, "201 ") {
		t.Error(got)
	}
}

// TestWithoutHistory has the parameters ignored where they are off, and refused where nothing is kept.
func TestWithoutHistory(t *testing.T) {
	off := startWith(t, func(c *config.Config) { c.ExtensionNames = []string{"*", "-history"} })
	if got := string(do(t, off, "GET", inDefault+"configmaps?at=yesterday&revisions=true", "", "application/json", nil, 200)); !strings.Contains(got, "ConfigMapList") {
		t.Error(got)
	}
	do(t, off, "POST", "/apis/history.kanzen.io/v1/forgotten", "application/json", "", []byte(`{}`), 404)
	none := startWith(t, func(c *config.Config) { c.History = 0 })
	if got := string(do(t, none, "GET", inDefault+"configmaps?at=1h", "", "application/json", nil, 400)); !strings.Contains(got, "keeps no history") {
		t.Error(got)
	}
}
