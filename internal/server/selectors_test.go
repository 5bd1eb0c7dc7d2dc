package server

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/process/config"
)

const widgetDefinition = `{"metadata":{"name":"widgets.example.com","annotations":{"index.kanzen.io/fields":"spec.tenant, spec.size,metadata.name,spec.on"}},
	"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},"versions":[{"name":"v1","served":true,"storage":true,
	"selectableFields":[{"jsonPath":".spec.region"}],"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{
	"tenant":{"type":"string"},"region":{"type":"string"},"on":{"type":"boolean"},"size":{"type":"integer"}}}}}}}]}}`

const widgets = "/apis/example.com/v1/widgets"

// selectable is a kind of which objects are selected, and its fields with the values that they may have.
type selectable struct {
	path   string
	fields map[string][]string
}

var selectables = []selectable{
	{"/api/v1/pods", map[string][]string{"metadata.name": {"x0", "x1", "x2", "x3"}, "metadata.namespace": {"n0", "n1"},
		"spec.nodeName": {"", "w0", "w1", "w2"}, "status.phase": {"Pending", "Running", "Failed"}, "spec.restartPolicy": {"Always", "Never"}}},
	{widgets, map[string][]string{"metadata.name": {"x0", "x1", "x2", "x3"}, "metadata.namespace": {"n0", "n1"},
		"spec.tenant": {"", "acme", "b,c", `d\e`}, "spec.region": {"", "north", "south"}, "spec.size": {"", "1", "2"}, "spec.on": {"", "true", "false"}}},
}

// valueAt reads a field of an object in JSON.
func valueAt(o any, field string) string {
	for name := range strings.SplitSeq(field, ".") {
		o = o.(map[string]any)[name]
		if o == nil {
			return ""
		}
	}
	return fmt.Sprint(o)
}

// selectorWorld is objects that change at random.
type selectorWorld struct {
	t *testing.T
	s *server
	r *rand.Rand
}

func (w *selectorWorld) pick(of ...string) string { return of[w.r.IntN(len(of))] }

func (w *selectorWorld) do(method, path, body string, want int) []byte {
	w.t.Helper()
	media := "application/json"
	if method == "PATCH" {
		media = "application/merge-patch+json"
	}
	return do(w.t, w.s, method, path, media, "", []byte(body), want)
}

// selector makes a random selector, and what it selects.
func (w *selectorWorld) selector(of selectable) (string, func(o any) bool) {
	var texts []string
	var terms []func(o any) bool
	fields := slices.Sorted(maps.Keys(of.fields))
	for range 1 + w.r.IntN(3) {
		field := w.pick(fields...)
		values := []string{w.pick(of.fields[field]...)}
		is := func(o any) bool { return slices.Contains(values, valueAt(o, field)) }
		not := func(o any) bool { return !is(o) }
		escaped := strings.NewReplacer(`\`, `\\`, ",", `\,`).Replace(values[0])
		switch w.r.IntN(7) {
		case 0:
			texts, terms = append(texts, field+"="+escaped), append(terms, is)
		case 1:
			texts, terms = append(texts, field+"!="+escaped), append(terms, not)
		case 2:
			texts, terms = append(texts, field+" exists"), append(terms, func(o any) bool { return valueAt(o, field) != "" })
		case 3:
			texts, terms = append(texts, "!"+field), append(terms, func(o any) bool { return valueAt(o, field) == "" })
		default:
			list := []string{}
			values = nil
			for range 1 + w.r.IntN(3) {
				// A value with a comma cannot be one of a list.
				if value := w.pick(of.fields[field]...); !strings.Contains(value, ",") {
					values, list = append(values, value), append(list, strings.ReplaceAll(value, `\`, `\\`))
				}
			}
			if values == nil {
				values, list = []string{"none"}, []string{"none"}
			}
			operator, term := "in", is
			if w.r.IntN(3) == 0 {
				operator, term = "notin", not
			}
			texts, terms = append(texts, fmt.Sprintf("%s %s (%s)", field, operator, strings.Join(list, ", "))), append(terms, term)
		}
	}
	return strings.Join(texts, ","), func(o any) bool {
		return !slices.ContainsFunc(terms, func(term func(any) bool) bool { return !term(o) })
	}
}

// change makes, changes or removes an object.
func (w *selectorWorld) change() {
	ns, name := w.pick("n0", "n1"), w.pick("x0", "x1", "x2", "x3")
	if w.r.IntN(2) == 0 {
		w.changePod("/api/v1/namespaces/"+ns+"/pods", name)
		return
	}
	path := "/apis/example.com/v1/namespaces/" + ns + "/widgets"
	spec := map[string]any{}
	for field, value := range map[string]any{"tenant": w.pick("", "acme", "b,c", `d\e`), "region": w.pick("", "north", "south"), "size": 1 + w.r.IntN(2), "on": w.r.IntN(2) == 0} {
		if value != "" && w.r.IntN(4) > 0 {
			spec[field] = value
		}
	}
	text, _ := json.Marshal(spec)
	code, _ := question{"DELETE", path + "/" + name, "", "delete", "widgets"}.ask(w.s, masters)
	if code == 404 || w.r.IntN(3) > 0 {
		w.do("POST", path, fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":%q},"spec":%s}`, name, text), 201)
		if w.r.IntN(2) == 0 {
			w.do("PATCH", path+"/"+name, fmt.Sprintf(`{"spec":{"tenant":%q}}`, w.pick("acme", "b,c")), 200)
		}
	}
}

func (w *selectorWorld) changePod(path, name string) {
	code, text := question{"GET", path + "/" + name, "", "get", "pods"}.ask(w.s, masters)
	switch {
	case code == 404:
		node := ""
		if w.r.IntN(3) > 0 {
			node = fmt.Sprintf(`"nodeName":%q,`, w.pick("w0", "w1", "w2"))
		}
		w.do("POST", path, fmt.Sprintf(`{"metadata":{"name":%q},"spec":{%s"restartPolicy":%q,"containers":[{"name":"c","image":"i"}]}}`, name, node, w.pick("Always", "Never")), 201)
	case w.r.IntN(3) == 0:
		w.do("DELETE", path+"/"+name+"?gracePeriodSeconds=0", "", 200)
	case !strings.Contains(string(text), "nodeName") && w.r.IntN(2) == 0:
		w.do("POST", path+"/"+name+"/binding", fmt.Sprintf(`{"metadata":{"name":%q},"target":{"kind":"Node","name":%q}}`, name, w.pick("w0", "w1", "w2")), 201)
	default:
		w.do("PATCH", path+"/"+name+"/status", fmt.Sprintf(`{"status":{"phase":%q}}`, w.pick("Pending", "Running", "Failed")), 200)
	}
}

// all lists, page by page, and returns the objects by key.
func (w *selectorWorld) all(path string, query url.Values) map[string]any {
	w.t.Helper()
	out := map[string]any{}
	for {
		var list struct {
			Metadata struct{ Continue string }
			Items    []any
		}
		if err := json.Unmarshal(w.do("GET", path+"?"+query.Encode(), "", 200), &list); err != nil {
			w.t.Fatal(err)
		}
		for _, o := range list.Items {
			key, _, _ := seenObject(o)
			out[key] = o
		}
		if list.Metadata.Continue == "" {
			return out
		}
		query.Set("continue", list.Metadata.Continue)
	}
}

// selectorWatch is what a watch has told of the objects there are.
type selectorWatch struct {
	of       selectable
	selector string
	selects  func(o any) bool
	mu       sync.Mutex
	objects  map[string]any
}

func (c *selectorWatch) run(ctx context.Context, s *server) error {
	q, err := http.NewRequestWithContext(ctx, "GET", "https://here"+c.of.path+"?watch=1&fieldSelector="+url.QueryEscape(c.selector), nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: s.Transport(masters)}).Do(q)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for events := json.NewDecoder(resp.Body); ; {
		var e struct {
			Type   string
			Object any
		}
		if err := events.Decode(&e); err != nil {
			return err
		}
		key, _, _ := seenObject(e.Object)
		c.mu.Lock()
		switch e.Type {
		case "ADDED", "MODIFIED":
			c.objects[key] = e.Object
		case "DELETED":
			delete(c.objects, key)
		default:
			c.objects["a "+e.Type] = e.Object
		}
		c.mu.Unlock()
	}
}

func (c *selectorWatch) has(want map[string]any) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return sameObjects(c.objects, want)
}

func sameObjects(a, b map[string]any) bool {
	return maps.EqualFunc(a, b, func(a, b any) bool {
		_, is, _ := seenObject(a)
		_, other, _ := seenObject(b)
		return is == other
	})
}

func kept(all map[string]any, selects func(o any) bool) map[string]any {
	out := map[string]any{}
	for key, o := range all {
		if selects(o) {
			out[key] = o
		}
	}
	return out
}

// TestFieldSelectors compares lists, their pages, their orders and watches by random field selectors with a plain filter on all objects,
// while these change.
func TestFieldSelectors(t *testing.T) {
	s := start(t)
	w := &selectorWorld{t: t, s: s, r: rand.New(rand.NewPCG(5, 8))}
	defineWidgets(t, s)
	for _, ns := range []string{"n0", "n1"} {
		w.do("POST", "/api/v1/namespaces", fmt.Sprintf(`{"metadata":{"name":%q}}`, ns), 201)
		w.do("POST", "/api/v1/namespaces/"+ns+"/serviceaccounts", `{"metadata":{"name":"default"}}`, 201)
	}
	for range 30 {
		w.change()
	}
	var watches []*selectorWatch
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	defer ended.Wait()
	defer cancel()
	for n := range 40 {
		c := &selectorWatch{of: selectables[n%2], objects: map[string]any{}}
		c.selector, c.selects = w.selector(c.of)
		watches = append(watches, c)
		ended.Go(func() { _ = c.run(ctx, s) })
	}
	steps, found := 200, 0
	if testing.Short() {
		steps = 30
	}
	for step := range steps {
		w.change()
		of := selectables[step%2]
		all := w.all(of.path, url.Values{})
		selector, selects := w.selector(of)
		query := url.Values{"fieldSelector": {selector}}
		if w.r.IntN(2) == 0 {
			query.Set("limit", fmt.Sprint(1+w.r.IntN(3)))
		}
		if w.r.IntN(3) == 0 {
			query.Set("sort", w.pick("", "-")+w.pick(slices.Sorted(maps.Keys(of.fields))...))
		}
		asked, path := query.Encode(), of.path
		if w.r.IntN(3) == 0 {
			path = strings.Replace(path, "/v1/", "/v1/namespaces/n1/", 1)
			in := selects
			selects = func(o any) bool { return in(o) && valueAt(o, "metadata.namespace") == "n1" }
		}
		want := kept(all, selects)
		found += len(want)
		if got := w.all(path, query); !sameObjects(got, want) {
			t.Fatalf("step %d: %s?%s (%s) has %q, want %q", step, path, asked, selector, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
		for _, c := range watches {
			if c.of.path != of.path {
				continue
			}
			for began := time.Now(); !c.has(kept(all, c.selects)); time.Sleep(time.Millisecond) {
				if time.Since(began) > 20*time.Second {
					t.Fatalf("step %d: the watch of %s by %s has %q, want %q", step, of.path, c.selector, slices.Sorted(maps.Keys(c.objects)), slices.Sorted(maps.Keys(kept(all, c.selects))))
				}
			}
		}
	}
	if found < steps {
		t.Errorf("only %d objects were selected", found)
	}
}

func defineWidgets(t *testing.T, s *server) {
	do(t, s, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/json", "", []byte(widgetDefinition), 201)
	eventually(t, func() bool {
		code, _ := question{method: "GET", path: widgets}.ask(s, masters)
		return code == 200
	})
}

// TestFieldSelectorsRefused has what is no selector, and every one that kube-apiserver does not know if the extension is off.
func TestFieldSelectorsRefused(t *testing.T) {
	alone(t, testing.Short())
	on := start(t)
	off := startWith(t, func(c *config.Config) { c.ExtensionNames = []string{"*", "-selectors"} })
	for _, s := range []*server{on, off} {
		defineWidgets(t, s)
	}
	for _, q := range []struct{ path, selector, with, without string }{
		{"/api/v1/pods", "status.phase in (Running)", "200", ""},
		{"/api/v1/pods", "spec.nodeName exists", "200", ""},
		{"/api/v1/pods", "spec.nodeName", "400 invalid selector: 'spec.nodeName'; can't understand 'spec.nodeName'", ""},
		{"/api/v1/pods", "!spec.nodeName", "200", ""},
		{"/api/v1/pods", "spec.hostname in (a)", `400 field label not supported: spec.hostname`, ""},
		{"/api/v1/pods", "status.phase in (Running", `400 fieldSelector: invalid selector: 'status.phase in (Running'; can't understand 'status.phase in (Running'`, ""},
		{"/api/v1/pods", "status.phase has (Running)", `400 fieldSelector: invalid selector: 'status.phase has (Running)'; can't understand 'status.phase has (Running)'`, ""},
		{widgets, "spec.tenant=acme", "200", "400 field label not supported: spec.tenant"},
		{widgets, "spec.region=north", "200", "200"},
		{widgets, "spec.other=x", "400 field label not supported: spec.other", "400 field label not supported: spec.other"},
	} {
		path := q.path + "?fieldSelector=" + url.QueryEscape(q.selector)
		if got := answers(on, "admin", "GET", path); got != q.with {
			t.Errorf("%s: got %s\nwant %s", q.selector, got, q.with)
		}
		want := q.without
		got := answers(off, "admin", "GET", path)
		if want == "" {
			// In the words of kube-apiserver's parser.
			want = fmt.Sprintf("400 invalid selector: '%s'; can't understand '%s'", q.selector, q.selector)
		}
		if got != want {
			t.Errorf("%s, off: got %s\nwant %s", q.selector, got, want)
		}
	}
	if got, want := answers(off, "admin", "GET", widgets+"?sort=spec.tenant"), "400 sort: widgets cannot be sorted by"; !strings.HasPrefix(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestFieldSelectorsGiveNoRights has collections deleted by selectors that kube-apiserver does not know: what they select goes, and nothing
// else. Authorizers see no selector in such a request, so that a right to one name does not do, whatever is selected.
func TestFieldSelectorsGiveNoRights(t *testing.T) {
	alone(t, testing.Short())
	s := start(t)
	post := func(path, object string) { do(t, s, "POST", path, "application/json", "", []byte(object), 201) }
	const path = "/api/v1/namespaces/default/configmaps"
	for n := range 5 {
		post(path, fmt.Sprintf(`{"metadata":{"name":"x%d"}}`, n))
	}
	post("/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", `{"metadata":{"name":"x1"},"rules":[{"apiGroups":[""],"resources":["configmaps"],"resourceNames":["x1"],"verbs":["*"]}]}`)
	post("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", `{"metadata":{"name":"x1"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"x1"},
		"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"eve"}]}`)
	if err := s.base.objects.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	eve := &user.DefaultInfo{Name: "eve", Groups: []string{user.AllAuthenticated}}
	for _, q := range []struct {
		u                user.Info
		method, selector string
		code             int
		left             string
	}{
		{eve, "GET", "metadata.name=x1", 200, "x0 x1 x2 x3 x4"},
		{eve, "GET", "metadata.name in (x1)", 403, "x0 x1 x2 x3 x4"},
		{eve, "DELETE", "metadata.name=x1", 403, "x0 x1 x2 x3 x4"},
		{eve, "DELETE", "metadata.name in (x1)", 403, "x0 x1 x2 x3 x4"},
		{masters, "DELETE", "metadata.name", 400, "x0 x1 x2 x3 x4"},
		{masters, "DELETE", "metadata.name in x0", 400, "x0 x1 x2 x3 x4"},
		{masters, "DELETE", "metadata.name in (x0", 400, "x0 x1 x2 x3 x4"},
		{masters, "DELETE", "metadata.name in ()", 200, "x0 x1 x2 x3 x4"},
		{masters, "DELETE", "metadata.name in (x0,none,default/x1)", 200, "x1 x2 x3 x4"},
		{masters, "DELETE", "metadata.name in (x1,x2),metadata.name!=x2", 200, "x2 x3 x4"},
		{masters, "DELETE", "metadata.name notin (x2,x3)", 200, "x2 x3"},
	} {
		code, answer := question{q.method, path + "?fieldSelector=" + url.QueryEscape(q.selector) + "&labelSelector=" + url.QueryEscape("!none"), "", "", ""}.ask(s, q.u)
		if code != q.code {
			t.Errorf("%s %s by %s: %d %s", q.method, q.selector, q.u.GetName(), code, answer)
		}
		var left []string
		for key := range (&selectorWorld{t: t, s: s}).all(path, url.Values{"fieldSelector": {"metadata.name!=kube-root-ca.crt"}}) {
			_, name, _ := strings.Cut(key, "/")
			left = append(left, name)
		}
		slices.Sort(left)
		if got := strings.Join(left, " "); got != q.left {
			t.Fatalf("%s %s by %s: left are %s, want %s", q.method, q.selector, q.u.GetName(), got, q.left)
		}
	}
}

// TestIndexedFieldsFollowTheAnnotation has fields become selectable, and no longer be, with the annotation of their definition.
func TestIndexedFieldsFollowTheAnnotation(t *testing.T) {
	alone(t, testing.Short())
	s := start(t)
	defineWidgets(t, s)
	do(t, s, "POST", "/apis/example.com/v1/namespaces/default/widgets", "application/json", "",
		[]byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"tenant":"acme","region":"north"}}`), 201)
	ask := func(query string) string { return answers(s, "admin", "GET", widgets+"?"+query) }
	for _, step := range []struct{ annotation, query, want string }{
		{"", "fieldSelector=spec.tenant%3Dacme", "400 field label not supported: spec.tenant"},
		{"", "fieldSelector=spec.region%3Dnorth", "200"},
		{"spec.tenant", "fieldSelector=spec.tenant%3Dacme", "200"},
		{"spec.tenant", "sort=spec.tenant", "200"},
		{"spec.on,metadata.uid", "fieldSelector=spec.tenant%3Dacme", "400 field label not supported: spec.tenant"},
		{"spec.on,metadata.uid", "fieldSelector=metadata.uid%3Da", "400 field label not supported: metadata.uid"},
	} {
		do(t, s, "PATCH", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com", "application/merge-patch+json", "",
			fmt.Appendf(nil, `{"metadata":{"annotations":{"index.kanzen.io/fields":%q}}}`, step.annotation), 200)
		eventually(t, func() bool { return ask(step.query) == step.want })
	}
}

// TestIndexWhileDefinitionChanges has lists by an index, writes, and changes of the definition meet.
func TestIndexWhileDefinitionChanges(t *testing.T) {
	alone(t, testing.Short())
	s := start(t)
	defineWidgets(t, s)
	const path = "/apis/example.com/v1/namespaces/default/widgets"
	var all sync.WaitGroup
	for n := range 3 {
		all.Go(func() {
			for k := range 60 {
				_, _ = question{"POST", path, fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w%d-%d"},"spec":{"tenant":"t%d"}}`, n, k, k%3), "", ""}.ask(s, masters)
				_, _ = question{"GET", path + "?fieldSelector=spec.tenant%3Dt1", "", "", ""}.ask(s, masters)
			}
		})
	}
	for n := range 30 {
		do(t, s, "PATCH", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com", "application/merge-patch+json", "",
			fmt.Appendf(nil, `{"metadata":{"annotations":{"index.kanzen.io/fields":"spec.tenant%s"}}}`, []string{"", ",spec.on"}[n%2]), 200)
	}
	all.Wait()
	if got := len((&selectorWorld{t: t, s: s}).all(path, url.Values{"fieldSelector": {"spec.tenant=t1"}})); got != 60 {
		t.Errorf("%d widgets are found, want 60", got)
	}
}
