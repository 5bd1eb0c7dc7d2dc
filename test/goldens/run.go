package goldens

import (
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/yaml"
)

//go:embed base
var baseFS embed.FS

// loadBase reads one manifest as JSON data, with its namespace filled in.
func loadBase(b Base) map[string]any {
	m := loadYAML("base/" + b.ID + ".yaml")
	if b.Namespace != "" {
		m["metadata"].(map[string]any)["namespace"] = b.Namespace
	}
	return m
}

func loadYAML(file string) map[string]any {
	data, err := baseFS.ReadFile(file)
	if err != nil {
		panic(err)
	}
	m := map[string]any{}
	if err := yaml.Unmarshal(data, &m); err != nil {
		panic(fmt.Sprint(file, ": ", err))
	}
	return m
}

// Runner executes cases against one server.
type Runner struct {
	C     *Client
	Bases map[string]Base
	Log   func(format string, a ...any)
}

// prepare makes namespaces (with a default service account) and fixtures.
func (r *Runner) prepare(ids []string) {
	for _, id := range ids {
		if ns := r.Bases[id].Namespace; ns != "" {
			r.namespace(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": ns}})
		}
	}
	entries, _ := baseFS.ReadDir("base/fixtures")
	for _, e := range entries {
		o := loadYAML("base/fixtures/" + e.Name())
		if o["kind"] == "Namespace" {
			r.namespace(o)
			continue
		}
		md := o["metadata"].(map[string]any)
		coll := map[string]string{
			"PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses", "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
			"StorageClass": "/apis/storage.k8s.io/v1/storageclasses", "VolumeAttributesClass": "/apis/storage.k8s.io/v1/volumeattributesclasses",
			"CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
			"LimitRange":               "/api/v1/namespaces/" + str(md["namespace"]) + "/limitranges", "ResourceQuota": "/api/v1/namespaces/" + str(md["namespace"]) + "/resourcequotas",
		}[str(o["kind"])]
		code, err := r.C.send("POST", coll, o)
		if err != nil && code != 409 {
			r.Log("fixture %s: %v", e.Name(), err)
		}
		if st := o["status"]; st != nil { // what a controller would write
			b, _ := json.Marshal(map[string]any{"status": st})
			_, _, _ = r.C.do("PATCH", coll+"/"+str(md["name"])+"/status", "application/merge-patch+json", "", b)
		}
		if o["kind"] == "CustomResourceDefinition" {
			r.await(coll+"/"+str(md["name"]), "CustomResourceDefinition")
			plural, group, _ := strings.Cut(str(md["name"]), ".")
			for i := 0; i < 100; i++ {
				if code, _ := r.C.getJSON("/apis/"+group+"/v1/"+plural, ""); code == 200 {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
		}
	}
}

func (r *Runner) namespace(ns map[string]any) {
	name := str(ns["metadata"].(map[string]any)["name"])
	if code, err := r.C.send("POST", "/api/v1/namespaces", ns); err != nil && code != 409 {
		r.Log("namespace: %v", err)
	}
	if code, err := r.C.send("POST", "/api/v1/namespaces/"+name+"/serviceaccounts", map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": "default"}}); err != nil && code != 409 {
		r.Log("service account: %v", err)
	}
}

// await waits until the server has written the status of an object that it maintains itself.
func (r *Runner) await(path, kind string) {
	if !asyncStatus[kind] || kind == "PriorityLevelConfiguration" {
		return
	}
	for i := 0; i < 50; i++ {
		_, o := r.C.getJSON(path, "")
		st, _ := o["status"].(map[string]any)
		conds, _ := st["conditions"].([]any)
		if kind != "CustomResourceDefinition" && len(conds) > 0 {
			return
		}
		for _, c := range conds {
			if m, ok := c.(map[string]any); ok && m["type"] == "Established" && m["status"] == "True" {
				return
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// run executes all cases, base by base, workers bases at a time.
func (r *Runner) run(cases []*Case, workers int, done func(c *Case, got Expect)) {
	byBase := map[string][]*Case{}
	for _, c := range cases {
		byBase[c.Base] = append(byBase[c.Base], c)
	}
	var ids []string
	for id := range byBase {
		ids = append(ids, id)
	}
	sort.Slice(ids, func(i, j int) bool {
		a, b := ids[i], ids[j]
		return len(byBase[a]) > len(byBase[b]) || len(byBase[a]) == len(byBase[b]) && a < b
	})
	r.prepare(ids)
	r.runBase(r.Bases["misc"], byBase["misc"], done) // first and alone: it reads discovery
	ch := make(chan string)
	var wg sync.WaitGroup
	for w := 0; w < workers; w++ {
		wg.Go(func() {
			for id := range ch {
				r.runBase(r.Bases[id], byBase[id], done)
			}
		})
	}
	var last []string // service ranges change what other bases get: after all the rest
	for _, id := range ids {
		switch {
		case strings.Contains(id, ".ServiceCIDR."):
			last = append(last, id)
		case id != "misc":
			ch <- id
		}
	}
	close(ch)
	wg.Wait()
	for _, id := range last {
		r.runBase(r.Bases[id], byBase[id], done)
	}
}

// runBase: cases without setup; then the base is created; then the cases that
// need it; then those with steps of their own; then the base is removed.
func (r *Runner) runBase(b Base, cases []*Case, done func(c *Case, got Expect)) {
	var before, after, scripted []*Case
	for _, c := range cases {
		switch {
		case len(c.Steps) > 0:
			scripted = append(scripted, c)
		case len(c.Setup) > 0:
			after = append(after, c)
		default:
			before = append(before, c)
		}
	}
	exec := func(list []*Case) {
		for _, c := range list {
			done(c, r.exec(b, c))
		}
	}
	exec(before)
	if b.Collection != "" && len(after)+len(scripted) > 0 {
		o := loadBase(b)
		if _, err := r.C.send("POST", b.Collection, o); err != nil {
			r.Log("create base %s: %v", b.ID, err)
		}
		r.await(b.Collection+"/"+b.Name, str(o["kind"]))
		defer func() {
			p := b.Collection + "/" + b.Name
			_, _, _ = r.C.do("PATCH", p, "application/merge-patch+json", "", []byte(`{"metadata":{"finalizers":null}}`))
			_, _, _ = r.C.do("DELETE", p+"?gracePeriodSeconds=0", "", "", nil)
			_, _, _ = r.C.do("PATCH", p, "application/merge-patch+json", "", []byte(`{"metadata":{"finalizers":null}}`))
		}()
	}
	rv := func() string {
		_, o := r.C.getJSON(b.Collection+"/"+b.Name, "")
		return str(mapOf(o["metadata"])["resourceVersion"])
	}
	start := ""
	if b.Collection != "" && len(after) > 0 {
		start = rv()
	}
	exec(after)
	if start != "" {
		if end := rv(); end != start {
			r.Log("base %s was changed by a case that should not write (resourceVersion %s, then %s)", b.ID, start, end)
		}
	}
	exec(scripted)
}

type vars struct{ rv, uid, cont string }

func (v *vars) take(body []byte) {
	var m struct {
		Metadata struct{ ResourceVersion, UID, Continue string }
	}
	if json.Unmarshal(body, &m) == nil && m.Metadata.ResourceVersion != "" {
		v.rv, v.uid, v.cont = m.Metadata.ResourceVersion, m.Metadata.UID, m.Metadata.Continue
	}
}

func (v vars) fill(s string) string {
	if !strings.Contains(s, "${") {
		return s
	}
	return strings.NewReplacer("${rv}", v.rv, "${uid}", v.uid, "${continue}", v.cont).Replace(s)
}

// exec runs one case. A conflict on a body made from the live object is retried,
// since the server may have touched the object in between.
func (r *Runner) exec(b Base, c *Case) Expect {
	v := vars{}
	for _, s := range c.Steps {
		if _, body, err := r.request(b, s, &v); err == nil {
			v.take(body)
		}
	}
	for try := 0; ; try++ {
		resp, body, err := r.request(b, c.Request, &v)
		if err != nil {
			return Expect{Code: -1, Reason: err.Error()}
		}
		e := observe(resp, body, strings.Contains(c.Path, "watch=1"))
		if !slices.ContainsFunc(c.Ops, func(op Op) bool { return op.Path == "/metadata/generateName" }) { // the name is in the sentences
			e.said = sentences(resp, body)
			e.Words = mark(e.said)
		}
		if !c.CheckManaged {
			e.Managed = nil
		}
		for _, op := range c.Ops { // a generated name may stand in the error, too
			if op.Path == "/metadata/generateName" {
				i := strings.LastIndex(e.Details, "/") + 1
				e.Details = e.Details[:i] + generated(str(op.Value), e.Details[i:])
			}
		}
		for _, p := range []string{"/openapi", "/version", "/openid", "/.well-known", "/api/v1/namespaces/default/services/kubernetes"} {
			if strings.HasPrefix(c.Path, p) { // depends on the build or the port, or is huge
				e.Object = nil
			}
		}
		if e.Code != 409 || c.From != "live" || try == 2 {
			return e
		}
	}
}

func (r *Runner) request(b Base, q Request, v *vars) (*http.Response, []byte, error) {
	body := []byte(q.BodyText)
	if q.Pad > 0 {
		body = []byte(strings.Replace(q.BodyText, "${pad}", strings.Repeat("x", q.Pad), 1))
	}
	var doc any
	switch q.From {
	case "base":
		doc = loadBase(b)
	case "live":
		_, live, err := r.C.do("GET", b.Collection+"/"+b.Name, "", "", nil)
		if err != nil {
			return nil, nil, err
		}
		if err := json.Unmarshal(live, &doc); err != nil {
			return nil, nil, fmt.Errorf("live object: %v", err)
		}
	default:
		if len(q.Body) > 0 {
			if err := json.Unmarshal(q.Body, &doc); err != nil {
				return nil, nil, err
			}
		}
	}
	if q.From != "" || len(q.Body) > 0 || len(q.Ops) > 0 {
		doc, err := Apply(doc, q.Ops)
		if err != nil {
			return nil, nil, err
		}
		if strings.Contains(q.ContentType, "yaml") {
			body, _ = yaml.Marshal(doc)
		} else {
			body, _ = json.Marshal(doc)
		}
	}
	if v.rv == "" && (strings.Contains(string(body), "${") || strings.Contains(q.Path, "${")) && q.Pad == 0 {
		if _, live, err := r.C.do("GET", b.Collection+"/"+b.Name, "", "", nil); err == nil {
			v.take(live)
		}
	}
	if q.Pad == 0 {
		body = []byte(v.fill(string(body)))
	}
	return r.C.do(q.Method, v.fill(q.Path), q.ContentType, q.Accept, body)
}

func loadIndex() (map[string]Base, []string) {
	data, err := baseFS.ReadFile("base/index.json")
	if err != nil {
		fmt.Fprintln(os.Stderr, "no base/index.json: run `goldens index` first and rebuild")
		os.Exit(1)
	}
	var list []Base
	if err := json.Unmarshal(data, &list); err != nil {
		panic(err)
	}
	m, ids := map[string]Base{}, []string{}
	for _, b := range list {
		m[b.ID] = b
		ids = append(ids, b.ID)
	}
	return m, ids
}
