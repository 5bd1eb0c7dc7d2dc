package matrix

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// documents are the manifests of testdata.
type documents struct {
	world, bodies []map[string]any
}

func readDocuments() (*documents, error) {
	d := &documents{}
	for file, into := range map[string]*[]map[string]any{"testdata/world.yaml": &d.world, "testdata/bodies.yaml": &d.bodies} {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, part := range bytes.Split(data, []byte("\n---\n")) {
			o := map[string]any{}
			if err := yaml.Unmarshal(part, &o); err != nil {
				return nil, err
			}
			*into = append(*into, o)
		}
	}
	return d, nil
}

func metadata(o map[string]any) map[string]any {
	m, _ := o["metadata"].(map[string]any)
	if m == nil {
		m = map[string]any{}
		o["metadata"] = m
	}
	return m
}

func text(v any) string { s, _ := v.(string); return s }

// names are those of the world's objects of a route's resource.
func (d *documents) names(r route) []string {
	var out []string
	for _, o := range d.world {
		if resourceOf(text(o["kind"])) == r.resource {
			out = append(out, text(metadata(o)["name"]))
		}
	}
	if r.resource == "namespaces" {
		out = append(out, "ns2", "ns1", "kube-system")
	}
	if len(out) == 0 {
		out = []string{"a"}
	}
	return out
}

// within puts a document into a namespace, and an event what it is about too.
func within(o map[string]any, namespace string) {
	metadata(o)["namespace"] = namespace
	for _, k := range []string{"involvedObject", "regarding"} {
		if about, ok := o[k].(map[string]any); ok {
			about["namespace"] = namespace
		}
	}
}

// resourceOf is the plural of a kind.
func resourceOf(kind string) string {
	k := strings.ToLower(kind)
	switch {
	case strings.HasSuffix(k, "endpoints"):
		return k
	case strings.HasSuffix(k, "s"):
		return k + "es"
	case strings.HasSuffix(k, "cy"):
		return k[:len(k)-1] + "ies"
	}
	return k + "s"
}

// of is a document of a kind, in a version.
func (d *documents) of(k schemaKind, groupVersion string) map[string]any {
	var found map[string]any
	for _, o := range slices.Concat(d.world, d.bodies) {
		if o["kind"] != k.kind {
			continue
		}
		if o["apiVersion"] == groupVersion {
			return clone(o)
		}
		if found == nil {
			found = o
		}
	}
	if found == nil {
		return map[string]any{"apiVersion": groupVersion, "kind": k.kind, "metadata": map[string]any{"name": "a"}}
	}
	found = clone(found)
	found["apiVersion"] = groupVersion
	return found
}

func encode(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// document is a body for a place, most often one that fits it.
func (g *generator) document(p place) string {
	switch n := g.IntN(100); {
	case n < 6:
		return pick(g, "", "", "{}", "null", "[]", "1", "{", `{"kind":"Status","apiVersion":"v1"}`, `{"kind":"List","apiVersion":"v1","items":[]}`, `{"metadata":{"name":"a"}}`, "\x00\x01", "k8s\x00\x0a")
	case n < 12:
		return g.deleteOptions()
	}
	return encode(g.object(p))
}

// object is a document as it should be for a place, changed in some ways.
func (g *generator) object(p place) map[string]any {
	gv := p.kind.version
	if p.kind.group != "" {
		gv = p.kind.group + "/" + p.kind.version
	}
	o := g.docs.of(p.kind, gv)
	switch n := g.IntN(100); {
	case n < 15 && p.subresource != "":
		o = g.docs.of(schemaKind{kind: g.parent(p)}, p.groupVersion())
	case n < 22:
		o = clone(pick(g, slices.Concat(g.docs.world, g.docs.bodies)...))
	}
	m := metadata(o)
	if p.namespaced {
		within(o, p.namespace)
	}
	switch {
	case p.name != "":
		m["name"] = p.name
	case g.chance(60) && !strings.Contains(p.name, "."):
		m["name"] = strings.Replace(text(m["name"]), "a", pick(g, "new", "new2", "a"), 1)
	}
	if p.subresource == "status" && g.chance(60) {
		o["status"] = pick(g, map[string]any{"phase": "Running"}, map[string]any{"replicas": 3}, map[string]any{}, map[string]any{"conditions": []any{}}, map[string]any{"nosuch": 1})
	}
	for range g.IntN(3) * g.IntN(2) {
		g.spoil(o)
	}
	return o
}

// parent is the kind of the object whose subresource it is.
func (g *generator) parent(p place) string {
	for _, r := range g.routes {
		if r.group == p.group && r.version == p.version && r.resource == p.resource && r.subresource == "" {
			return r.kind.kind
		}
	}
	return p.kind.kind
}

// spoil makes a document say something else than its path, or too much.
func (g *generator) spoil(o map[string]any) {
	m := metadata(o)
	switch g.IntN(20) {
	case 0:
		m["name"] = pick(g, "b", "other", "", "A_b", "../x")
	case 1:
		delete(m, "name")
	case 2, 3:
		m["namespace"] = pick(g, "ns1", "ns2", "kube-system", "", "nosuch")
	case 4:
		delete(m, "namespace")
	case 5, 6:
		m["uid"] = pick(g, "${uid}", "11111111-2222-3333-4444-555555555555", "x", "")
	case 7, 8:
		m["resourceVersion"] = pick(g, "${rv}", "${rv}", "1", "garbage", "0", "-1")
	case 9:
		o["kind"] = pick(g, "Pod", "Namespace", "Nosuch", "", "List", "Scale", "DeleteOptions")
	case 10:
		o["apiVersion"] = pick(g, "v1", "apps/v1", "v2", "nosuch.test/v1", "", "matrix.test/v2")
	case 11:
		delete(o, pick(g, "kind", "apiVersion"))
	case 12:
		m["finalizers"] = pick(g, []any{"example.com/x"}, []any{"x"}, []any{"foregroundDeletion"})
	case 13:
		m["deletionTimestamp"] = "2020-01-01T00:00:00Z"
	case 14:
		m["managedFields"] = pick[any](g, nil, []any{}, []any{map[string]any{}}, []any{map[string]any{"manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:metadata": map[string]any{}}}})
	case 15:
		m["ownerReferences"] = []any{map[string]any{"apiVersion": "v1", "kind": "Namespace", "name": "ns2", "uid": "x", "blockOwnerDeletion": true}}
	case 16:
		m["labels"] = map[string]any{"app": pick(g, "m", "x", "not ok")}
	case 17:
		o["status"] = pick(g, map[string]any{"phase": "Running"}, map[string]any{"replicas": 3}, map[string]any{"phase": "Terminating"})
	case 18:
		o["nosuch"] = map[string]any{"a": 1}
	case 19:
		if spec, ok := o["spec"].(map[string]any); ok {
			if _, ok := spec["containers"]; ok {
				spec["hostNetwork"], spec["nodeName"] = true, "b"
			} else {
				spec["replicas"] = 7
			}
		}
	}
}

func (g *generator) deleteOptions() string {
	return pick(g, `{"kind":"DeleteOptions","apiVersion":"v1"}`, `{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0}`, `{"gracePeriodSeconds":0}`, `{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["All"]}`,
		`{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"${uid}"}}`, `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"x"}}`, `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"resourceVersion":"1"}}`,
		`{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Foreground"}`, `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"x"}`, `{"kind":"DeleteOptions","apiVersion":"apps/v1"}`, `{"kind":"DeleteOptions","apiVersion":"policy/v1"}`,
		`{"kind":"Pod","apiVersion":"v1"}`, `{"dryRun":["x"]}`, `{"propagationPolicy":"Orphan","orphanDependents":true}`, `{"orphanDependents":false}`, `{`, `[]`)
}

// patch makes a patch of one of the kinds that there are, as a rule one that
// its content type names.
func (g *generator) patch(q *request, p place) {
	small := func() map[string]any {
		o := pick(g, map[string]any{"metadata": map[string]any{"labels": map[string]any{"x": "1"}}}, map[string]any{"spec": map[string]any{"replicas": 4}},
			map[string]any{"status": map[string]any{"phase": "Running"}}, map[string]any{"metadata": map[string]any{"finalizers": nil}}, map[string]any{"data": map[string]any{"k": "dg=="}}, map[string]any{}, map[string]any{"kind": "Pod"})
		o = clone(o)
		for range g.IntN(2) {
			g.spoil(o)
		}
		return o
	}
	switch n := g.IntN(100); {
	case n < 40:
		q.Header["Content-Type"] = "application/apply-patch+yaml"
		q.Body = g.document(p)
		if g.chance(20) {
			o := map[string]any{"apiVersion": p.groupVersion(), "kind": g.parent(p), "metadata": map[string]any{"name": p.name, "labels": map[string]any{"y": "1"}}}
			q.Body = encode(o)
		}
		if g.chance(88) {
			sep := "?"
			if strings.Contains(q.Target, "?") {
				sep = "&"
			}
			q.Target += sep + "fieldManager=m" + pick(g, "", "&force=true", "&force=true")
		}
	case n < 75:
		q.Header["Content-Type"] = pick(g, "application/merge-patch+json", "application/strategic-merge-patch+json")
		q.Body = encode(small())
		if g.chance(25) {
			q.Body = g.document(p)
		}
	case n < 90:
		q.Header["Content-Type"] = "application/json-patch+json"
		q.Body = pick(g, `[{"op":"add","path":"/metadata/labels","value":{"z":"1"}}]`, `[{"op":"replace","path":"/metadata/name","value":"other"}]`, `[{"op":"replace","path":"/metadata/namespace","value":"ns2"}]`,
			`[{"op":"replace","path":"/metadata/uid","value":"x"}]`, `[{"op":"remove","path":"/spec"}]`, `[{"op":"test","path":"/metadata/uid","value":"x"}]`, `[]`, `{}`, `[{"op":"replace","path":"","value":{}}]`,
			`[{"op":"add","path":"/spec/replicas","value":5}]`, `[{"op":"add","path":"/status","value":{}}]`, `[{"op":"replace","path":"/kind","value":"Pod"}]`, `[{"op":"replace","path":"/metadata/resourceVersion","value":"1"}]`)
	default:
		q.Body = g.document(p)
		g.contentType(q, pick(g, "application/json", "application/apply-patch+cbor", "application/apply-patch"), 70)
	}
}
