package sequences

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kanzen-io/kanzen/test/goldens"
)

// definition is a CustomResourceDefinition as it stands in a sequence, and the kind that it defines.
type definition struct {
	*generator
	of  *kind
	doc map[string]any
}

// field is one that objects of a definition may have, with schemas that it may get and values that some of them take.
type field struct {
	name    string
	schemas []map[string]any
	values  []any
}

type m = map[string]any

// fields are those of the spec.
var fields = []field{
	{"n", []m{{"type": "integer"}, {"type": "integer", "minimum": 2}, {"type": "integer", "maximum": 3}, {"type": "number", "multipleOf": 0.5}, {"type": "integer", "default": 2}, {"type": "string"},
		{"x-kubernetes-int-or-string": true}, {"type": "integer", "format": "int32"}, {"type": "integer", "enum": []any{1, 2}},
		{"type": "integer", "x-kubernetes-validations": []any{m{"rule": "self >= oldSelf"}}},
		{"type": "integer", "x-kubernetes-validations": []any{m{"rule": "!oldSelf.hasValue() || self >= oldSelf.value()", "optionalOldSelf": true}}},
		{"type": "integer", "x-kubernetes-validations": []any{m{"rule": "self != 5", "message": "no five", "reason": "FieldValueForbidden"}}}},
		[]any{1, 2, 5, -1, 2.5, "1", "x", nil, 3000000000, 7}},
	{"s", []m{{"type": "string"}, {"type": "string", "maxLength": 3}, {"type": "string", "enum": []any{"a", "b", ""}}, {"type": "string", "pattern": "^a"}, {"type": "string", "default": "a"},
		{"type": "string", "nullable": true, "default": "b"}, {"type": "string", "nullable": true}, {"type": "string", "format": "date-time"}, {"type": "string", "minLength": 1},
		{"type": "string", "maxLength": 9, "x-kubernetes-validations": []any{m{"rule": "self == oldSelf", "messageExpression": "'was ' + oldSelf"}}}},
		[]any{"a", "b", "abcd", "", nil, "2024-01-01T00:00:00Z", 5, "axxxxxxxxxxx"}},
	{"list", []m{{"type": "array", "items": m{"type": "string"}}, {"type": "array", "items": m{"type": "string"}, "x-kubernetes-list-type": "set"},
		{"type": "array", "items": m{"type": "string", "maxLength": 1}, "maxItems": 2}, {"type": "array", "items": m{"type": "integer"}},
		{"type": "array", "items": m{"type": "string", "nullable": true}, "default": []any{"d"}}, {"type": "array", "minItems": 1, "items": m{"type": "string", "pattern": "^[a-c]$"}, "x-kubernetes-list-type": "set"}},
		[]any{[]any{"a"}, []any{"a", "b"}, []any{"b", "c", "dd"}, []any{"a", "a"}, []any{}, nil, []any{1, 2}, []any{"a", nil}, "a"}},
	{"byKey", []m{keyed(m{"k": m{"type": "string"}, "v": m{"type": "integer"}}, "k"), keyed(m{"k": m{"type": "string"}, "v": m{"type": "integer", "maximum": 3}}, "k"),
		keyed(m{"k": m{"type": "string"}, "p": m{"type": "string", "default": "TCP"}, "v": m{"type": "integer"}}, "k", "p"),
		keyed(m{"k": m{"type": "string"}, "v": m{"type": "integer", "default": 1, "x-kubernetes-validations": []any{m{"rule": "self >= oldSelf"}}}}, "k"),
		{"type": "array", "items": m{"type": "object", "properties": m{"k": m{"type": "string"}, "v": m{"type": "integer"}}}}},
		[]any{[]any{m{"k": "a", "v": 1}}, []any{m{"k": "a", "v": 2}, m{"k": "b", "v": 5}}, []any{m{"k": "b"}, m{"k": "a", "p": "UDP"}}, []any{m{"k": "a"}, m{"k": "a"}}, []any{m{"v": 1}}, []any{}, nil,
			[]any{m{"k": "a", "p": "TCP", "v": 1}, m{"k": "a", "p": "UDP", "v": 4}}}},
	{"map", []m{{"type": "object", "additionalProperties": m{"type": "string"}}, {"type": "object", "additionalProperties": m{"type": "integer"}}, {"type": "object", "x-kubernetes-map-type": "atomic",
		"additionalProperties": m{"type": "string"}}, {"type": "object", "additionalProperties": m{"type": "string", "nullable": true}}, {"type": "object", "maxProperties": 1, "additionalProperties": m{"type": "string", "maxLength": 2}},
		{"type": "object", "additionalProperties": m{"type": "object", "properties": m{"a": m{"type": "integer", "default": 1}}}}, {"type": "object", "additionalProperties": true}},
		[]any{m{"a": "x"}, m{"a": "x", "b": "yyy"}, m{"a": 1}, m{"a": nil}, m{}, nil, m{"a": m{}}, m{"a": m{"a": 2, "b": 3}}}},
	{"o", []m{withParts(nil), withParts(m{"default": m{}}), withParts(m{"required": []any{"a"}}), withParts(m{"x-kubernetes-preserve-unknown-fields": true}), withParts(m{"x-kubernetes-map-type": "atomic"}), withParts(m{"nullable": true}),
		withParts(m{"x-kubernetes-validations": []any{m{"rule": "!has(self.a) || self.a > 1", "fieldPath": ".a"}}}), withParts(m{"x-kubernetes-validations": []any{m{"rule": "has(self.a) == has(oldSelf.a)"}}}),
		withParts(m{"oneOf": []any{m{"required": []any{"a"}}, m{"required": []any{"b"}}}}), {"type": "object", "x-kubernetes-preserve-unknown-fields": true}, {"x-kubernetes-preserve-unknown-fields": true}},
		[]any{m{"a": 1}, m{"a": 2, "b": "y"}, m{"b": "z", "unknown": m{"x": 1}}, m{}, nil, m{"unknown": []any{1}}, m{"a": "x"}}},
	{"pod", []m{{"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}, {"type": "object", "x-kubernetes-embedded-resource": true,
		"properties": m{"spec": m{"type": "object", "properties": m{"x": m{"type": "integer", "default": 1}}}}}},
		[]any{m{"apiVersion": "v1", "kind": "Pod", "metadata": m{"name": "x", "labels": m{"a": "b"}}, "spec": m{}}, m{"kind": "X"}, m{"apiVersion": "v1", "kind": "Pod", "metadata": m{"name": 1, "unknown": 2}}, nil, m{}}},
	{"replicas", []m{{"type": "integer"}, {"type": "integer", "format": "int32"}, {"type": "integer", "minimum": 1}, {"type": "integer", "default": 3}}, []any{1, 0, 2, nil, -1, "1"}},
}

func keyed(properties m, keys ...any) m {
	return m{"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys, "items": m{"type": "object", "required": keys[:1], "properties": properties}}
}

func withParts(more m) m {
	out := m{"type": "object", "properties": m{"a": m{"type": "integer"}, "b": m{"type": "string", "default": "x"}}}
	maps.Copy(out, more)
	return out
}

// definitions makes a sequence of objects whose definition changes meanwhile.
func (g *generator) definitions() []step {
	g.number = 0
	d := &definition{g, &kind{group: "$R.example.test", version: "v1", kind: "Thing", plural: "things", namespaced: g.chance(80), subresources: []string{"status", "scale"}}, nil}
	d.of.versions = []string{"/apis/$R.example.test/v2/"}
	for range 4 {
		d.of.bases = append(d.of.bases, d.value())
	}
	for range 12 {
		f := pick(g, fields...)
		d.of.edits = append(d.of.edits, m{pick(g, "spec", "spec", "spec", "status"): m{f.name: pick(g, f.values...)}})
	}
	g.objects = []object{g.object(d.of, "a"), g.object(d.of, "b")}
	d.doc = d.fresh()
	out := []step{d.create()}
	for _, o := range g.objects {
		out = append(out, g.create(o))
	}
	for range 8 + g.IntN(24) {
		g.number++
		if g.chance(28) {
			out = append(out, d.step()...)
		} else {
			out = append(out, g.step(pick(g, g.objects...)))
		}
	}
	return out
}

// value is an object, of which some fields may not be what the schema asks for.
func (d *definition) value() m {
	spec := func() m {
		out := m{}
		for _, f := range fields {
			if d.chance(40) {
				out[f.name] = pick(d.generator, f.values[:max(2, len(f.values)/2)]...)
			}
		}
		return out
	}
	out := m{"apiVersion": d.of.apiVersion(), "kind": d.of.kind, "metadata": m{}, "spec": spec()}
	if d.chance(40) {
		out["status"] = spec()
	}
	if d.chance(15) {
		out["unknown"] = m{"a": 1}
	}
	return out
}

const definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

func (d *definition) name() string { return "things.$R.example.test" }

func (d *definition) path() string { return definitionsPath + "/" + d.name() }

// fresh is a new definition.
func (d *definition) fresh() m {
	scope := "Cluster"
	if d.of.namespaced {
		scope = "Namespaced"
	}
	versions := []any{d.version("v1", true)}
	if d.chance(60) {
		versions = append(versions, d.version("v2", false))
	}
	doc := m{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": m{"name": d.name(), "labels": m{"run": "$R"}},
		"spec": m{"group": d.of.group, "scope": scope, "names": m{"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}, "versions": versions}}
	if d.chance(15) {
		doc["spec"].(m)["conversion"] = m{"strategy": "None"}
	}
	return doc
}

// version is one of a definition.
func (d *definition) version(name string, storage bool) m {
	v := m{"name": name, "served": true, "storage": storage, "schema": m{"openAPIV3Schema": d.schema()}}
	if d.chance(50) {
		v["subresources"] = d.subresources()
	}
	if d.chance(25) {
		v["additionalPrinterColumns"] = d.columns()
	}
	if d.chance(20) {
		v["selectableFields"] = d.selectable()
	}
	if d.chance(15) {
		v["deprecated"] = true
	}
	return v
}

func (d *definition) subresources() m {
	out := m{}
	if d.chance(75) {
		out["status"] = m{}
	}
	if d.chance(40) {
		scale := m{"specReplicasPath": pick(d.generator, ".spec.replicas", ".spec.replicas", ".spec.n"), "statusReplicasPath": ".status.replicas"}
		if d.chance(50) {
			scale["labelSelectorPath"] = pick(d.generator, ".status.s", ".spec.s")
		}
		out["scale"] = scale
	}
	return out
}

func (d *definition) columns() []any {
	out := []any{}
	for range 1 + d.IntN(2) {
		f := pick(d.generator, fields...)
		out = append(out, m{"name": "C" + fmt.Sprint(len(out)), "type": pick(d.generator, "string", "integer", "date", "boolean", "number"),
			"jsonPath": pick(d.generator, ".spec.", ".spec.", ".status.") + f.name + pick(d.generator, "", "", "", "[0]", ".a")})
	}
	return out
}

func (d *definition) selectable() []any {
	return []any{m{"jsonPath": pick(d.generator, ".spec.s", ".spec.n", ".spec.replicas", ".spec.o.a")}}
}

// schema is one of a version, with some of the fields.
func (d *definition) schema() m {
	part := func() m {
		properties := m{}
		for _, f := range fields {
			if d.chance(65) {
				properties[f.name] = clone(pick(d.generator, f.schemas...))
			}
		}
		out := m{"type": "object", "properties": properties}
		if d.chance(15) {
			out["x-kubernetes-preserve-unknown-fields"] = true
		}
		if d.chance(10) {
			out["required"] = []any{pick(d.generator, fields...).name}
		}
		return out
	}
	spec, status := part(), part()
	if d.chance(15) {
		spec["default"] = m{}
	}
	if d.chance(15) {
		spec["x-kubernetes-validations"] = []any{pick(d.generator, m{"rule": "!has(self.n) || !has(self.replicas) || self.n <= self.replicas"}, m{"rule": "has(self.s)", "fieldPath": ".s", "reason": "FieldValueRequired"},
			m{"rule": "!has(oldSelf.s) || has(self.s)"}, m{"rule": "!has(self.list) || self.list.all(x, x != 'c')"})}
	}
	out := m{"type": "object", "properties": m{"spec": spec, "status": status}}
	switch d.IntN(12) {
	case 0:
		out["x-kubernetes-preserve-unknown-fields"] = true
	case 1:
		out["required"] = []any{"spec"}
	case 2:
		out["properties"].(m)["metadata"] = m{"type": "object", "properties": m{"name": m{"type": "string", "maxLength": 5}}}
	case 3:
		out["x-kubernetes-validations"] = []any{m{"rule": "self.metadata.name != 'zz' && (!has(self.spec) || !has(oldSelf.spec) || self.spec == oldSelf.spec)"}}
	case 4:
		delete(out["properties"].(m), "status")
	}
	return out
}

// create makes the definition, once it is served.
func (d *definition) create() step {
	return step{Method: "POST", Path: definitionsPath, Body: text(d.doc), Until: &step{Method: "GET", Path: d.of.collection(d.served()) + "?limit=1", Code: 200}}
}

// served is the start of the paths of a version that is served.
func (d *definition) served() string {
	for _, v := range d.versions() {
		if v := v.(m); v["served"] == true {
			return "/apis/" + d.of.group + "/" + v["name"].(string) + "/"
		}
	}
	return d.of.root()
}

func (d *definition) versions() []any { return d.doc["spec"].(m)["versions"].([]any) }

// step changes the definition.
func (d *definition) step() []step {
	switch n := d.IntN(100); {
	case n < 8:
		gone := step{Method: "DELETE", Path: d.path(), Until: &step{Method: "GET", Path: d.path(), Code: 404}}
		if d.chance(30) {
			return []step{gone}
		}
		if d.chance(70) {
			d.doc = d.fresh()
		}
		return []step{gone, d.create()}
	case n < 14:
		return []step{{Method: "GET", Path: d.path(), Accept: pick(d.generator, "", "application/yaml", "application/json;as=Table;g=meta.k8s.io;v=v1,application/json")}}
	case n < 19:
		return []step{{Method: "PUT", Path: d.path() + "/status", From: d.path(), Edits: []goldens.Op{{Op: "set", Path: "/status/storedVersions",
			Value: pick[any](d.generator, []any{"v1"}, []any{"v2"}, []any{"v1", "v2"}, []any{})}}}}
	case n < 24:
		return []step{{Method: "POST", Path: definitionsPath, Body: text(d.fresh())}}
	}
	before := clone(d.doc)
	for range 1 + d.IntN(2) {
		d.change()
	}
	st := step{Method: "PUT", Path: d.path() + d.options(), From: d.path(), Edits: []goldens.Op{{Op: "set", Path: "/spec", Value: d.doc["spec"]}}}
	if d.chance(15) {
		st = step{Method: "PATCH", Path: d.path() + d.options("fieldManager", pick(d.generator, "m1", "m2"), "force", "true"), Sent: "application/apply-patch+yaml", Body: text(d.doc)}
	} else if d.chance(25) {
		st = step{Method: "PATCH", Path: d.path() + d.options(), Sent: "application/merge-patch+json", Body: text(m{"spec": d.doc["spec"]})}
	}
	if d.chance(10) {
		d.doc = before // later changes go on from what was before
	}
	return []step{st}
}

// change is one of the definition's versions, or of what it has beside them.
func (d *definition) change() {
	spec, all := d.doc["spec"].(m), d.versions()
	v := pick(d.generator, all...).(m)
	part := func() m {
		s, _ := v["schema"].(m)["openAPIV3Schema"].(m)["properties"].(m)
		p, _ := s[pick(d.generator, "spec", "spec", "spec", "status")].(m)
		if p == nil {
			p, _ = s["spec"].(m)
		}
		p, _ = p["properties"].(m)
		return p
	}
	toggle := func(key string, made func() any) {
		if v[key] == nil || d.chance(50) {
			v[key] = made()
		} else {
			delete(v, key)
		}
	}
	switch n := d.IntN(100); {
	case n < 35:
		f := pick(d.generator, fields...)
		if p := part(); p[f.name] != nil && d.chance(25) {
			delete(p, f.name)
		} else {
			p[f.name] = clone(pick(d.generator, f.schemas...))
		}
	case n < 45:
		v["schema"] = m{"openAPIV3Schema": d.schema()}
	case n < 55:
		toggle("subresources", func() any { return d.subresources() })
	case n < 62:
		toggle("additionalPrinterColumns", func() any { return d.columns() })
	case n < 68:
		toggle("selectableFields", func() any { return d.selectable() })
	case n < 76:
		v["served"] = v["served"] != true
	case n < 86:
		if len(all) == 1 {
			spec["versions"] = append(all, d.version("v2", false))
			return
		}
		for _, v := range all {
			v.(m)["storage"] = v.(m)["storage"] != true
		}
	case n < 90:
		if len(all) == 2 {
			spec["versions"] = slices.DeleteFunc(all, func(v any) bool { return v.(m)["storage"] != true })
		}
	case n < 93:
		spec["preserveUnknownFields"] = d.chance(50)
	case n < 97:
		names := spec["names"].(m)
		names["shortNames"] = pick(d.generator, []any{"th"}, []any{"th", "thg"}, []any{})
		names["categories"] = pick(d.generator, []any{"all"}, []any{})
	default:
		toggle("deprecated", func() any { return true })
	}
}
