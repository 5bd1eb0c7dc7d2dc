package server

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
)

// This file asks random questions about what users may see, of a world in which everything changes, and compares each answer with
// single access reviews of every object.

// visibleWorld is objects and rights, changed by one goroutine. Random numbers decide about everything.
type visibleWorld struct {
	t    *testing.T
	s    *server
	r    *rand.Rand
	step int
	// teams are the labels of the namespaces.
	teams map[string]string
	// written is the step of each write, by resource, key and revision; allowed is the last step in which a user might see a key.
	written map[string]int
	allowed map[string]int
	users   []user.Info
}

const rbacPath = "/apis/rbac.authorization.k8s.io/v1/"

func newVisibleWorld(t *testing.T, s *server, seed uint64) *visibleWorld {
	w := &visibleWorld{t: t, s: s, r: rand.New(rand.NewPCG(seed, seed)), teams: map[string]string{}, written: map[string]int{}, allowed: map[string]int{}}
	for n := range 6 {
		w.users = append(w.users, &user.DefaultInfo{Name: fmt.Sprint("u", n), Groups: []string{fmt.Sprint("g", n%2), "system:authenticated"}})
	}
	for n := range 7 {
		name := fmt.Sprint("n", n)
		if n > 4 {
			name = fmt.Sprintf("n1-%d", n) // its keys come before those of n1
		}
		w.teams[name] = ""
		w.do("POST", "/api/v1/namespaces", fmt.Sprintf(`{"metadata":{"name":%q}}`, name), 201)
	}
	return w
}

// do makes a request as an administrator.
func (w *visibleWorld) do(method, path, body string, codes ...int) map[string]any {
	w.t.Helper()
	code, doc := w.as(masters, method, path, body)
	if !slices.Contains(codes, code) {
		w.t.Fatalf("%s %s: %d %v", method, path, code, doc)
	}
	return doc
}

func (w *visibleWorld) as(u user.Info, method, path, body string) (int, map[string]any) {
	w.t.Helper()
	q := httptest.NewRequest(method, path, strings.NewReader(body))
	q = q.WithContext(inprocess.WithUser(q.Context(), u))
	q.Header.Set("Content-Type", "application/json")
	if method == "PATCH" {
		q.Header.Set("Content-Type", "application/merge-patch+json")
	}
	rec := httptest.NewRecorder()
	w.s.handler.ServeHTTP(rec, q)
	doc := map[string]any{}
	if err := json.Unmarshal(rec.Body.Bytes(), &doc); err != nil {
		w.t.Fatalf("%s %s: %d %q", method, path, rec.Code, rec.Body)
	}
	return rec.Code, doc
}

func (w *visibleWorld) pick(of ...string) string { return of[w.r.IntN(len(of))] }

func (w *visibleWorld) namespace() string {
	return w.pick("n0", "n1", "n2", "n3", "n4", "n1-5", "n1-6")
}

// change changes something: an object, a label, a role or a binding.
func (w *visibleWorld) change() {
	w.step++
	ns, name := w.namespace(), fmt.Sprint("x", w.r.IntN(4))
	switch w.r.IntN(10) {
	case 0, 1, 2, 3:
		w.write(w.pick("configmaps", "configmaps", "secrets"), ns, name)
	case 4:
		w.teams[ns] = w.pick("", "red", "blue")
		w.do("PATCH", "/api/v1/namespaces/"+ns, fmt.Sprintf(`{"metadata":{"labels":{"team":%q}}}`, w.teams[ns]), 200)
		w.wrote("namespaces", w.do("GET", "/api/v1/namespaces/"+ns, "", 200))
	case 5, 6:
		kind, path := "Role", rbacPath+"namespaces/"+ns+"/roles"
		if w.r.IntN(3) == 0 {
			kind, path = "ClusterRole", rbacPath+"clusterroles"
		}
		w.replace(kind, path, name, `"rules":[`+w.rule()+`,`+w.rule()+`]`)
	default:
		kind, path := "RoleBinding", rbacPath+"namespaces/"+ns+"/rolebindings"
		role := w.pick("Role", "ClusterRole")
		if w.r.IntN(6) == 0 {
			kind, path, role = "ClusterRoleBinding", rbacPath+"clusterrolebindings", "ClusterRole"
		}
		subject := fmt.Sprintf(`{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"u%d"}`, w.r.IntN(6))
		if w.r.IntN(4) == 0 {
			subject = fmt.Sprintf(`{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"g%d"}`, w.r.IntN(2))
		}
		w.replace(kind, path, name, fmt.Sprintf(`"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":%q,"name":"x%d"},"subjects":[%s]`, role, w.r.IntN(4), subject))
	}
}

// rule is a random rule.
func (w *visibleWorld) rule() string {
	names := ""
	if w.r.IntN(2) == 0 {
		names = fmt.Sprintf(`,"resourceNames":["x%d",%q]`, w.r.IntN(4), w.namespace())
	}
	return fmt.Sprintf(`{"apiGroups":[%q],"resources":[%q],"verbs":[%s]%s}`, w.pick("", "", "", "*", "apps"),
		w.pick("configmaps", "configmaps", "secrets", "namespaces", "*"), w.pick(`"list","watch"`, `"list","watch"`, `"*"`, `"get"`), names)
}

// replace removes an object and mostly makes it anew.
func (w *visibleWorld) replace(kind, path, name, rest string) {
	w.do("DELETE", path+"/"+name, "", 200, 404)
	if w.r.IntN(4) > 0 {
		w.do("POST", path, fmt.Sprintf(`{"kind":%q,"apiVersion":"rbac.authorization.k8s.io/v1","metadata":{"name":%q},%s}`, kind, name, rest), 201)
	}
}

// write makes, changes or removes an object.
func (w *visibleWorld) write(resource, ns, name string) {
	path := "/api/v1/namespaces/" + ns + "/" + resource
	code, doc := w.as(masters, "POST", path, fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"l":"%d"}}}`, name, w.r.IntN(2)))
	switch {
	case code == 201:
	case w.r.IntN(3) == 0:
		w.do("DELETE", path+"/"+name, "", 200)
		return
	default:
		doc = w.do("PATCH", path+"/"+name, fmt.Sprintf(`{"metadata":{"labels":{"l":"%d"},"annotations":{"n":"%d"}}}`, w.r.IntN(2), w.step), 200)
	}
	w.wrote(resource, doc)
}

func (w *visibleWorld) wrote(resource string, doc map[string]any) {
	key, rev, _ := seenObject(doc)
	w.written[resource+" "+key+" "+rev] = w.step
}

// seenObject tells an object's key, revision and labels.
func seenObject(doc any) (key, rev string, labels map[string]any) {
	meta, _ := doc.(map[string]any)["metadata"].(map[string]any)
	labels, _ = meta["labels"].(map[string]any)
	rev, _ = meta["resourceVersion"].(string)
	key, _ = meta["name"].(string)
	if ns, _ := meta["namespace"].(string); ns != "" {
		key = ns + "/" + key
	}
	return key, rev, labels
}

// everything returns the objects of a resource, by key.
func (w *visibleWorld) everything(resource string) map[string]any {
	out := map[string]any{}
	items, _ := w.do("GET", "/api/v1/"+resource, "", 200)["items"].([]any)
	for _, i := range items {
		key, _, _ := seenObject(i)
		if ns, _, _ := strings.Cut(key, "/"); w.teams[ns] != "" || strings.HasPrefix(key, "n") {
			out[key] = i
		}
	}
	return out
}

// may asks a single access review.
func (w *visibleWorld) may(u user.Info, verb, resource, key string) bool {
	ns, name, namespaced := strings.Cut(key, "/")
	if !namespaced {
		name = ns
	}
	return w.review(u, verb, resource, ns, name)
}

func (w *visibleWorld) review(u user.Info, verb, resource, ns, name string) bool {
	groups, _ := json.Marshal(u.GetGroups())
	doc := w.do("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", fmt.Sprintf(
		`{"spec":{"user":%q,"groups":%s,"resourceAttributes":{"verb":%q,"resource":%q,"version":"v1","namespace":%q,"name":%q}}}`,
		u.GetName(), groups, verb, resource, ns, name), 201)
	allowed, _ := doc["status"].(map[string]any)["allowed"].(bool)
	return allowed
}

// listed makes a list, page by page, and returns its objects by key.
func (w *visibleWorld) listed(u user.Info, path string, query url.Values) map[string]any {
	w.t.Helper()
	out := map[string]any{}
	last := ""
	for {
		code, doc := w.as(u, "GET", path+"?"+query.Encode(), "")
		if code != 200 {
			w.t.Fatalf("step %d: %s lists %s?%s: %d %v", w.step, u.GetName(), path, query.Encode(), code, doc)
		}
		items, _ := doc["items"].([]any)
		for _, i := range items {
			key, _, _ := seenObject(i)
			if order := key + "/"; order <= last {
				w.t.Fatalf("step %d: %s after %s in %s?%s", w.step, key, last, path, query.Encode())
			} else {
				last = key
			}
			out[key] = i
		}
		meta, _ := doc["metadata"].(map[string]any)
		next, _ := meta["continue"].(string)
		if next == "" {
			return out
		}
		query.Set("continue", next)
	}
}

// question makes a random narrowing, and tells which keys it is about.
func (w *visibleWorld) question(resource string) (path string, query url.Values, about func(key string, o any) bool) {
	query = url.Values{"visible": {"true"}}
	path, about = "/api/v1/"+resource, func(string, any) bool { return true }
	also := func(f func(key string, o any) bool) {
		before := about
		about = func(key string, o any) bool { return before(key, o) && f(key, o) }
	}
	if w.r.IntN(3) == 0 {
		query.Set("limit", fmt.Sprint(1+w.r.IntN(3)))
	}
	if w.r.IntN(4) == 0 {
		query.Set("labelSelector", "l=1")
		also(func(_ string, o any) bool { _, _, l := seenObject(o); return l["l"] == "1" })
	}
	if w.r.IntN(5) == 0 {
		name := w.pick("x0", "x1", "n0", "n3")
		query.Set("fieldSelector", "metadata.name="+name)
		also(func(key string, _ any) bool { return key[strings.LastIndexByte(key, '/')+1:] == name })
	}
	if resource == "namespaces" {
		return path, query, about
	}
	if w.r.IntN(5) == 0 {
		ns := w.namespace()
		path = "/api/v1/namespaces/" + ns + "/" + resource
		also(func(key string, _ any) bool { return strings.HasPrefix(key, ns+"/") })
		return path, query, about
	}
	if w.r.IntN(3) == 0 {
		names := []string{w.namespace(), w.namespace(), "nowhere"}
		query.Set("namespaces", strings.Join(names, ","))
		also(func(key string, _ any) bool { ns, _, _ := strings.Cut(key, "/"); return slices.Contains(names, ns) })
	}
	if w.r.IntN(3) == 0 {
		query.Set("namespaceSelector", "team=red")
		also(func(key string, _ any) bool { ns, _, _ := strings.Cut(key, "/"); return w.teams[ns] == "red" })
	}
	return path, query, about
}

// TestVisibleIsWhatSingleReviewsAllow compares lists and watches, while rights and objects change, with reviews of single objects.
func TestVisibleIsWhatSingleReviewsAllow(t *testing.T) {
	seed, steps := uint64(11), 250
	if n, err := strconv.ParseUint(os.Getenv("VISIBLE_SEED"), 10, 64); err == nil {
		seed = n // to look for more
	}
	if testing.Short() {
		steps = 40
	}
	w := newVisibleWorld(t, start(t), seed)
	var caches []*visibleCache
	for n, u := range w.users {
		c := &visibleCache{w: w, u: u, resource: []string{"configmaps", "secrets", "namespaces"}[n%3], initial: n%2 == 0}
		c.query = url.Values{"visible": {"true"}}
		if n == 3 {
			c.query.Set("namespaceSelector", "team in (red, blue)")
		}
		caches = append(caches, c)
		c.run(t)
	}
	// One who may have everything follows namespaces by their labels.
	labelled := &visibleCache{w: w, u: masters, resource: "configmaps", query: url.Values{"namespaceSelector": {"team=red"}}, initial: true}
	named := &visibleCache{w: w, u: masters, resource: "configmaps", query: url.Values{"namespaces": {"n1,n3,n1-5"}}}
	caches = append(caches, labelled, named)
	labelled.run(t)
	named.run(t)
	asked, reviews := 0, 0
	for range steps {
		w.change()
		u := w.users[w.r.IntN(len(w.users))]
		resource := w.pick("configmaps", "secrets", "namespaces")
		path, query, about := w.question(resource)
		got := w.listed(u, path, query) // before others wait for the rights: a list does so itself
		if err := w.s.base.objects.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{"configmaps", "secrets", "namespaces"} {
			all := w.everything(kind)
			for n, c := range caches {
				if c.resource != kind {
					continue
				}
				want := map[string]any{}
				for key, o := range all {
					reviews++
					ns, _, _ := strings.Cut(key, "/")
					sees := n >= len(w.users) || w.may(c.u, "watch", kind, key)
					switch {
					case n == 3:
						sees = sees && w.teams[ns] != ""
					case c == labelled:
						sees = w.teams[ns] == "red"
					case c == named:
						sees = slices.Contains([]string{"n1", "n3", "n1-5"}, ns)
					}
					if sees { // no rule here has only one of list and watch
						want[key] = o
						w.allowed[c.id()+" "+kind+" "+key] = w.step
					}
				}
				c.expect(want)
			}
			if kind != resource {
				continue
			}
			for key, o := range all {
				reviews++
				asked++
				if _, has := got[key]; has != (about(key, o) && w.may(u, "list", kind, key)) {
					t.Fatalf("seed %d, step %d: %s?%s has %s for %s: %v", seed, w.step, path, query.Encode(), key, u.GetName(), has)
				}
				delete(got, key)
			}
			for key := range got {
				if strings.HasPrefix(key, "n") {
					t.Fatalf("seed %d, step %d: %s?%s has %s", seed, w.step, path, query.Encode(), key)
				}
			}
		}
		if w.r.IntN(8) == 0 {
			caches[w.r.IntN(len(caches))].cut()
		}
	}
	resumed, again := 0, 0
	for _, c := range caches {
		r, a := c.counts()
		resumed, again = resumed+r, again+a
	}
	t.Logf("%d objects of lists and %d reviews compared; watches were resumed %d times, and %d times it was listed again", asked, reviews, resumed, again)
	if resumed == 0 || again == 0 {
		t.Error("no watch was resumed, or none had to list again")
	}
}

// visibleCache is what a client has of a resource, by lists and watches as an informer makes them.
type visibleCache struct {
	w        *visibleWorld
	u        user.Info
	resource string
	query    url.Values
	initial  bool // it watches its initial objects, and does not list

	mu             sync.Mutex
	objects        map[string]any
	problem        string
	told           []string // resource, key and revision of each object that it was sent
	stop           context.CancelFunc
	resumed, again int
}

func (c *visibleCache) run(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		rev := ""
		for ctx.Err() == nil {
			rev = c.once(ctx, rev)
		}
	}()
}

// cut breaks the connection.
func (c *visibleCache) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop != nil {
		c.stop()
	}
}

func (c *visibleCache) counts() (resumed, again int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resumed, c.again
}

// once lists if there is no revision, and watches until the connection ends. It returns the revision with which to go on.
func (c *visibleCache) once(all context.Context, rev string) string {
	ctx, cancel := context.WithCancel(all)
	defer cancel()
	c.mu.Lock()
	c.stop = cancel
	c.mu.Unlock()
	client := &http.Client{Transport: c.w.s.Transport(c.u)}
	get := func(query url.Values) *http.Response {
		for k, v := range c.query {
			query[k] = v
		}
		q, _ := http.NewRequestWithContext(ctx, "GET", "https://here/api/v1/"+c.resource+"?"+query.Encode(), nil)
		resp, err := client.Do(q)
		if err != nil {
			return nil
		}
		return resp
	}
	watch := url.Values{"watch": {"1"}, "allowWatchBookmarks": {"true"}}
	switch {
	case rev != "":
		watch.Set("resourceVersion", rev)
	case c.initial:
		watch.Set("sendInitialEvents", "true")
		watch.Set("resourceVersionMatch", "NotOlderThan")
	default:
		resp := get(url.Values{})
		if resp == nil {
			return ""
		}
		var list struct {
			Metadata struct{ ResourceVersion string }
			Items    []any
		}
		err := json.NewDecoder(resp.Body).Decode(&list)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != 200 {
			return ""
		}
		c.replace(list.Items)
		watch.Set("resourceVersion", list.Metadata.ResourceVersion)
		rev = list.Metadata.ResourceVersion
	}
	resp := get(watch)
	if resp == nil {
		return rev
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != 200 {
		c.count(&c.again)
		return ""
	}
	var collected []any
	collecting := watch.Get("sendInitialEvents") != ""
	if !collecting {
		c.count(&c.resumed)
	}
	events := json.NewDecoder(resp.Body)
	for {
		var e struct {
			Type   string
			Object map[string]any
		}
		if events.Decode(&e) != nil {
			return rev
		}
		if e.Type == "ERROR" {
			c.count(&c.again)
			return ""
		}
		_, rev, _ = seenObject(e.Object)
		switch {
		case collecting && e.Type == "BOOKMARK":
			c.replace(collected)
			collecting = false
		case collecting:
			collected = append(collected, e.Object)
		default:
			c.take(e.Type, e.Object)
		}
		if collecting {
			rev = "" // it has nothing whole yet
		}
	}
}

func (c *visibleCache) count(n *int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n++
}

func (c *visibleCache) replace(items []any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects = map[string]any{}
	for _, i := range items {
		key, rev, _ := seenObject(i)
		c.objects[key] = i
		c.told = append(c.told, c.resource+" "+key+" "+rev)
	}
}

func (c *visibleCache) take(kind string, o map[string]any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key, rev, _ := seenObject(o)
	switch kind {
	case "ADDED", "MODIFIED":
		c.objects[key] = o
		c.told = append(c.told, c.resource+" "+key+" "+rev)
	case "DELETED":
		if had := c.objects[key]; had == nil {
			c.problem = "an object was deleted that it was never sent: " + key
		} else if before, after := annotated(had), annotated(o); before != after {
			c.problem = fmt.Sprintf("a deleted %s has %s, and had %s", key, after, before)
		}
		delete(c.objects, key)
	}
}

func annotated(o any) string {
	meta, _ := o.(map[string]any)["metadata"].(map[string]any)
	return fmt.Sprint(meta["annotations"], meta["labels"])
}

// expect waits until the cache is as it should be. Nothing may have been sent that was written after a right was lost.
func (c *visibleCache) expect(want map[string]any) {
	c.w.t.Helper()
	diff := ""
	for began := time.Now(); time.Since(began) < 20*time.Second; time.Sleep(time.Millisecond) {
		if diff = c.differs(want); diff == "" {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if diff != "" || c.problem != "" {
		c.w.t.Fatalf("step %d: %s's cache of %s?%s: %s %s", c.w.step, c.u.GetName(), c.resource, c.query.Encode(), diff, c.problem)
	}
	for _, told := range c.told {
		resource, rest, _ := strings.Cut(told, " ")
		key, _, _ := strings.Cut(rest, " ")
		at, known := c.w.written[told]
		if last, ok := c.w.allowed[c.id()+" "+resource+" "+key]; known && (!ok || last < at) {
			c.w.t.Fatalf("step %d: %s was sent %s of %s, written in step %d, and could last see it in step %d", c.w.step, c.u.GetName(), told, c.query.Encode(), at, last)
		}
	}
	c.told = nil
}

// differs says how the cache is not what is wanted.
func (c *visibleCache) differs(want map[string]any) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, o := range want {
		_, rev, _ := seenObject(o)
		has := c.objects[key]
		if has == nil {
			return "lacks " + key
		}
		if _, got, _ := seenObject(has); got != rev {
			return fmt.Sprintf("has %s of %s and not of %s", key, got, rev)
		}
	}
	for key := range c.objects {
		if _, ok := want[key]; !ok && strings.HasPrefix(key, "n") {
			return "has " + key
		}
	}
	return ""
}

func (c *visibleCache) id() string { return c.u.GetName() + "?" + c.query.Encode() }
