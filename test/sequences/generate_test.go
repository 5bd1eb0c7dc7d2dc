package sequences

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/kanzen-io/kanzen/test/goldens"
)

// generator makes sequences. The same seed makes the same.
type generator struct {
	*rand.Rand
	kinds   []*kind
	objects []object // of the sequence
	number  int      // of steps
}

// object is one that a sequence is about.
type object struct {
	*kind
	name string
}

func (o object) path(root string) string { return o.collection(root) + "/" + o.name }

// frequent are kinds that are in more sequences than others.
var frequent = []string{"ConfigMap", "Secret", "Service", "Service", "Pod", "Pod", "Deployment", "StatefulSet", "Job", "CronJob", "HorizontalPodAutoscaler",
	"PodDisruptionBudget", "PersistentVolumeClaim", "PersistentVolume", "ResourceQuota", "LimitRange", "Namespace", "Widget", "Widget", "Gizmo",
	"ResourceClaim", "CertificateSigningRequest", "Node", "Event", "ServiceAccount", "Lease"}

func pick[T any](g *generator, all ...T) T { return all[g.IntN(len(all))] }

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

// sequence makes one.
func (g *generator) sequence() []step {
	g.objects, g.number = nil, 0
	for range 1 + g.IntN(3) {
		k := pick(g, g.kinds...)
		if name := pick(g, frequent...); g.chance(70) {
			if of := slices.DeleteFunc(slices.Clone(g.kinds), func(k *kind) bool { return k.kind != name }); len(of) > 0 {
				k = pick(g, of...)
			}
		}
		for i := range 1 + g.IntN(2) {
			name := string(rune('a' + i))
			if !k.namespaced {
				name = "$R-" + name
			}
			g.objects = append(g.objects, object{k, name})
		}
	}
	var out []step
	for _, o := range g.objects {
		if g.chance(80) {
			out = append(out, g.create(o))
		}
	}
	for range 6 + g.IntN(24) {
		g.number++
		out = append(out, g.step(pick(g, g.objects...)))
	}
	return out
}

// step makes one about an object.
func (g *generator) step(o object) step {
	switch n := g.IntN(100); {
	case n < 10:
		return g.create(o)
	case n < 28:
		return g.update(o)
	case n < 46:
		return g.patch(o)
	case n < 60:
		return g.apply(o)
	case n < 71:
		return g.remove(o)
	case n < 74:
		return g.removeMany(o)
	case n < 80:
		return g.get(o)
	case n < 87:
		return g.list(o)
	case n < 91:
		return g.watch(o)
	}
	return g.subresource(o)
}

// root is that of a version of an object's kind.
func (g *generator) root(o object) string {
	if len(o.versions) > 0 && g.chance(30) {
		return pick(g, o.versions...)
	}
	return o.root()
}

// options are query parameters of writes.
func (g *generator) options(more ...string) string {
	q := url.Values{}
	if g.chance(8) {
		q.Set("dryRun", "All")
	}
	if g.chance(30) {
		q.Set("fieldManager", pick(g, "m1", "m2", "m3"))
	}
	if g.chance(20) {
		q.Set("fieldValidation", pick(g, "Strict", "Warn", "Ignore"))
	}
	for i := 0; i < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

func (g *generator) create(o object) step {
	doc := o.kind.object(pick(g, o.bases...), o.name)
	if g.chance(50) {
		doc = g.edited(o, doc, 1+g.IntN(2))
	}
	if g.chance(6) {
		m, _ := doc["metadata"].(map[string]any)
		delete(m, "name")
		m["generateName"] = fmt.Sprintf("gen-%d-", g.number)
	}
	return step{Method: "POST", Path: o.collection(o.root()) + g.options(), Body: text(doc), Accept: g.accept(5)}
}

func text(v any) string { return string(must(json.Marshal(v))) }

// edited applies some edits. Those that do not fit are left out.
func (g *generator) edited(o object, doc map[string]any, n int) map[string]any {
	for range n {
		for _, op := range g.edit(o) {
			if changed, err := goldens.Apply(clone[any](doc), []goldens.Op{clone(op)}); err == nil {
				if c, ok := changed.(map[string]any); ok {
					doc = c
				}
			}
		}
	}
	return doc
}

// update reads, changes and writes.
func (g *generator) update(o object) step {
	root := g.root(o)
	path, sub := o.path(root), ""
	if s := g.written(o); s != "" && g.chance(35) {
		sub = "/" + s
	}
	st := step{Method: "PUT", Path: path + sub + g.options(), From: path, Accept: g.accept(5)}
	if sub == "/scale" {
		st.From += sub
		st.Edits = []goldens.Op{{Op: "set", Path: "/spec/replicas", Value: g.IntN(4)}}
	} else {
		for range g.IntN(3) {
			st.Edits = append(st.Edits, g.edit(o)...)
		}
	}
	switch g.IntN(10) {
	case 0:
		st.Edits = append(st.Edits, goldens.Op{Op: "set", Path: "/metadata/resourceVersion", Value: "${old:" + path + "}"})
	case 1, 2:
		st.Edits = append(st.Edits, goldens.Op{Op: "del", Path: "/metadata/resourceVersion"})
	case 3:
		st.Edits = append(st.Edits, goldens.Op{Op: "set", Path: "/metadata/uid", Value: pick(g, "", "other", "${uid:"+g.other(o)+"}")})
	case 4:
		st.Edits = append(st.Edits, goldens.Op{Op: "set", Path: "/metadata/managedFields", Value: pick[any](g, []any{}, []any{map[string]any{}}, nil)})
	}
	return st
}

// other is the path of an object of the sequence.
func (g *generator) other(o object) string {
	p := pick(g, g.objects...)
	return p.path(p.root())
}

// written is a subresource that has the whole object, or its scale; "" if there is none.
func (g *generator) written(o object) string {
	var all []string
	for _, s := range o.subresources {
		if slices.Contains([]string{"status", "scale", "ephemeralcontainers", "resize", "finalize", "approval"}, s) {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return pick(g, all...)
}

func (g *generator) patch(o object) step {
	path := o.path(g.root(o))
	if s := g.written(o); s != "" && g.chance(30) {
		path += "/" + s
	}
	ops := g.edit(o)
	if g.chance(30) {
		ops = append(ops, g.edit(o)...)
	}
	st := step{Method: "PATCH", Path: path + g.options(), Accept: g.accept(5)}
	switch g.IntN(3) {
	case 0:
		st.Sent, st.Body = "application/json-patch+json", g.jsonPatch(ops)
	case 1:
		st.Sent, st.Body = "application/merge-patch+json", g.mergePatch(o, ops)
	default:
		st.Sent, st.Body = "application/strategic-merge-patch+json", g.mergePatch(o, ops)
	}
	return st
}

func (g *generator) jsonPatch(ops []goldens.Op) string {
	out := []any{}
	for _, op := range ops {
		switch {
		case op.Op == "del":
			out = append(out, map[string]any{"op": "remove", "path": op.Path})
		case g.chance(10):
			out = append(out, map[string]any{"op": "test", "path": op.Path, "value": op.Value})
		default:
			out = append(out, map[string]any{"op": pick(g, "add", "add", "replace"), "path": op.Path, "value": op.Value})
		}
	}
	return text(out)
}

// mergePatch makes a document of edits. Those within lists become part of the list of a base.
func (g *generator) mergePatch(o object, ops []goldens.Op) string {
	var doc any = map[string]any{}
	for _, op := range ops {
		parts := strings.Split(op.Path[1:], "/")
		for i, p := range parts { // up to the list
			if _, err := strconv.Atoi(p); err == nil || p == "-" {
				op.Path = "/" + strings.Join(parts[:i], "/")
				op.Value = at(pick(g, o.bases...), op.Path)
				op.Op = "set"
				break
			}
		}
		if op.Op == "del" {
			op.Op, op.Value = "set", nil
		}
		if changed, err := goldens.Apply(doc, []goldens.Op{clone(op)}); err == nil {
			doc = changed
		}
	}
	if m, ok := doc.(map[string]any); ok && g.chance(15) {
		inner, _ := m["metadata"].(map[string]any)
		if inner == nil {
			inner = map[string]any{}
			m["metadata"] = inner
		}
		inner["resourceVersion"] = pick(g, "${rv:", "${old:") + o.path(o.root()) + "}"
	}
	return text(doc)
}

// at is what a document has at a place.
func at(doc any, pointer string) any {
	for _, p := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		p = strings.NewReplacer("~1", "/", "~0", "~").Replace(p)
		switch d := doc.(type) {
		case map[string]any:
			doc = d[p]
		case []any:
			i, err := strconv.Atoi(p)
			if err != nil || i >= len(d) {
				return nil
			}
			doc = d[i]
		default:
			return nil
		}
	}
	return doc
}

// apply is a server-side apply of a part of an object.
func (g *generator) apply(o object) step {
	root := o.root()
	path, full := o.path(root), o.kind.object(pick(g, o.bases...), o.name)
	base := pick(g, o.bases...)
	doc := map[string]any{"apiVersion": full["apiVersion"], "kind": full["kind"]}
	sub := ""
	if slices.Contains(o.subresources, "status") && g.chance(20) {
		sub = "/status"
		if s, ok := base["status"]; ok {
			doc["status"] = clone(s)
		}
	}
	for k, v := range full {
		if k != "metadata" && sub == "" && g.chance(70) {
			doc[k] = v
		}
	}
	doc["metadata"] = pick(g, full["metadata"], any(map[string]any{"name": o.name}), any(map[string]any{"name": o.name, "labels": map[string]any{"run": "$R"}}))
	for range g.IntN(4) {
		if g.chance(40) { // less than all
			if p := g.place(doc, "spec", "data", "status", "rules"); p != "" {
				if changed, err := goldens.Apply(clone[any](doc), []goldens.Op{{Op: "del", Path: p}}); err == nil {
					doc, _ = changed.(map[string]any)
				}
			}
		} else {
			doc = g.edited(o, doc, 1)
		}
	}
	if g.chance(10) {
		if m, ok := doc["metadata"].(map[string]any); ok {
			m["resourceVersion"] = pick(g, "${rv:", "${old:") + path + "}"
		}
	}
	options := []string{"fieldManager", pick(g, "m1", "m2", "m3")}
	if g.chance(60) {
		options = append(options, "force", "true")
	}
	return step{Method: "PATCH", Path: path + sub + g.options(options...), Sent: "application/apply-patch+yaml", Body: text(doc), Accept: g.accept(5)}
}

func (g *generator) remove(o object) step {
	path := o.path(o.root())
	st := step{Method: "DELETE", Path: path, Accept: g.accept(3)}
	d := map[string]any{}
	if g.chance(40) {
		d["propagationPolicy"] = pick(g, "Foreground", "Background", "Orphan", "Orphan", "Wrong")
	} else if g.chance(15) {
		d["orphanDependents"] = g.chance(50)
	}
	if g.chance(30) {
		d["gracePeriodSeconds"] = pick(g, 0, 0, 1, 30, 60, -1)
	}
	if g.chance(20) {
		d["preconditions"] = pick(g, map[string]any{"uid": "${uid:" + path + "}"}, map[string]any{"uid": "other"},
			map[string]any{"resourceVersion": "${rv:" + path + "}"}, map[string]any{"resourceVersion": "${old:" + path + "}"})
	}
	if g.chance(7) {
		d["dryRun"] = []any{"All"}
	}
	if g.chance(4) {
		d["ignoreStoreReadErrorWithClusterBreakingPotential"] = true
	}
	switch {
	case len(d) > 0 && g.chance(85):
		d["kind"], d["apiVersion"] = "DeleteOptions", "v1"
		st.Body = text(d)
	case d["propagationPolicy"] != nil:
		st.Path += "?propagationPolicy=" + fmt.Sprint(d["propagationPolicy"])
	case d["gracePeriodSeconds"] != nil:
		st.Path += "?gracePeriodSeconds=" + fmt.Sprint(d["gracePeriodSeconds"])
	}
	return st
}

// selector is of the sequence's objects alone.
func (g *generator) selector(o object) url.Values {
	q := url.Values{"labelSelector": {"run=$R"}}
	if o.namespaced && g.chance(50) {
		q.Del("labelSelector")
	}
	if g.chance(20) {
		q.Set("labelSelector", "run=$R,"+pick(g, "app=golden", "app", "!app", "x in (y,z)", "app notin (golden)"))
	}
	if g.chance(20) {
		q.Set("fieldSelector", pick(g, "metadata.name="+o.name, "metadata.name!="+o.name, "status.phase=Running", "spec.nodeName=n1", "type=Opaque",
			"spec.color=red", "reason=R", "spec.type=NodePort", "status.phase!=Running", "spec.unschedulable=true", "metadata.namespace=$R"))
	}
	return q
}

func (g *generator) removeMany(o object) step {
	q := g.selector(o)
	if g.chance(30) {
		q.Set("propagationPolicy", pick(g, "Foreground", "Background", "Orphan"))
	}
	if g.chance(30) {
		q.Set("gracePeriodSeconds", pick(g, "0", "5"))
	}
	if g.chance(10) {
		q.Set("dryRun", "All")
	}
	if g.chance(10) {
		q.Set("limit", "1")
	}
	return step{Method: "DELETE", Path: o.collection(o.root()) + "?" + unescaped(q)}
}

// unescaped is a query in which placeholders stay.
func unescaped(q url.Values) string {
	return strings.NewReplacer("%24R", "$R", "%24%7B", "${", "%7D", "}", "%3A", ":", "%2F", "/").Replace(q.Encode())
}

// accept is the type of an answer, now and then another than JSON.
func (g *generator) accept(percent int) string {
	if !g.chance(percent) {
		return ""
	}
	return pick(g, "application/yaml", "application/vnd.kubernetes.protobuf, application/json", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
		"application/json;as=Table;g=meta.k8s.io;v=v1,application/json")
}

func (g *generator) get(o object) step {
	path := o.path(g.root(o))
	for _, s := range o.subresources {
		if slices.Contains([]string{"status", "scale"}, s) && g.chance(30) {
			path += "/" + s
			break
		}
	}
	if g.chance(20) {
		path += "?resourceVersion=" + pick(g, "0", "${rv:"+o.path(o.root())+"}", "${old:"+o.path(o.root())+"}")
	}
	return step{Method: "GET", Path: path, Accept: g.accept(50)}
}

func (g *generator) list(o object) step {
	q := g.selector(o)
	path := o.collection(g.root(o))
	if g.chance(30) {
		q.Set("limit", "1")
	}
	switch {
	case g.chance(15):
		q.Set("limit", "1")
		q.Set("continue", "${next:"+path+"}")
	case g.chance(30):
		q.Set("resourceVersion", pick(g, "0", "${rv:"+path+"}", "${old:"+path+"}", "${old:"+o.path(o.root())+"}"))
		if g.chance(70) {
			q.Set("resourceVersionMatch", pick(g, "Exact", "NotOlderThan"))
		}
	}
	accept := strings.ReplaceAll(g.accept(30), "PartialObjectMetadata;", "PartialObjectMetadataList;")
	return step{Method: "GET", Path: path + "?" + unescaped(q), Accept: accept}
}

func (g *generator) watch(o object) step {
	q := g.selector(o)
	q.Set("watch", "1")
	switch g.IntN(5) {
	case 0:
		q.Set("resourceVersion", "${old:"+o.path(o.root())+"}")
	case 1:
		q.Set("resourceVersion", "${rv:"+o.path(o.root())+"}")
	case 2:
		q.Set("sendInitialEvents", "true")
		q.Set("resourceVersionMatch", "NotOlderThan")
		q.Set("allowWatchBookmarks", "true")
	case 3:
		q.Set("resourceVersion", "0")
	}
	accept := ""
	if g.chance(25) {
		accept = pick(g, "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", "application/json;as=Table;g=meta.k8s.io;v=v1")
	}
	return step{Method: "GET", Path: o.collection(g.root(o)) + "?" + unescaped(q), Accept: accept, Watch: true}
}

// subresource asks for one that is no object of its kind; for those without any, something else.
func (g *generator) subresource(o object) step {
	path := o.path(o.root())
	post := func(sub string, doc map[string]any) step {
		return step{Method: "POST", Path: path + "/" + sub + g.options(), Body: text(doc)}
	}
	meta := map[string]any{"name": o.name}
	switch o.kind.kind {
	case "Pod":
		if g.chance(50) {
			return post("binding", map[string]any{"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": map[string]any{"kind": "Node", "name": pick(g, "n1", "n2")}})
		}
		return post("eviction", map[string]any{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta, "deleteOptions": pick[any](g, nil, map[string]any{"gracePeriodSeconds": 0})})
	case "ServiceAccount":
		return post("token", map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": map[string]any{"expirationSeconds": pick(g, 600, 3600, 10)}})
	}
	if slices.Contains(o.subresources, "scale") {
		if g.chance(50) {
			return step{Method: "PATCH", Path: path + "/scale" + g.options(), Sent: "application/merge-patch+json", Body: text(map[string]any{"spec": map[string]any{"replicas": g.IntN(5) - 1}})}
		}
		return step{Method: "PATCH", Path: path + "/scale" + g.options("fieldManager", pick(g, "m1", "m2")), Sent: "application/apply-patch+yaml",
			Body: text(map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": meta, "spec": map[string]any{"replicas": g.IntN(4)}})}
	}
	if len(o.subresources) > 0 {
		sub := pick(g, o.subresources...)
		st := g.update(o)
		if slices.Contains([]string{"status", "finalize", "approval"}, sub) {
			at := strings.IndexAny(st.Path+"?", "?")
			if !strings.HasSuffix(st.Path[:at], "/"+o.name) {
				return st
			}
			st.Path = st.Path[:at] + "/" + sub + st.Path[at:]
		}
		return st
	}
	return g.patch(o)
}
