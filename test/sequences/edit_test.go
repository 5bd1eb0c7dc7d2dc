package sequences

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kanzen-io/kanzen/test/goldens"
)

// edit is a change of an object: of its metadata, one that somebody has thought of, or one of a place that its manifests have.
func (g *generator) edit(o object) []goldens.Op {
	switch n := g.IntN(100); {
	case n < 30:
		return g.editMetadata(o)
	case n < 60 && len(o.edits) > 0:
		return leaves("", pick(g, o.edits...))
	}
	base := pick(g, o.bases...)
	place := g.place(base, "")
	if place == "" {
		return g.editMetadata(o)
	}
	op := goldens.Op{Op: "set", Path: place, Value: at(pick(g, o.bases...), place)}
	switch g.IntN(4) {
	case 0:
		op = goldens.Op{Op: "del", Path: place}
	case 1:
		op.Value = at(base, place)
	case 2:
		op.Value = g.changed(at(base, place))
	}
	return []goldens.Op{op}
}

// leaves makes edits of a merge patch.
func leaves(place string, v any) []goldens.Op {
	m, ok := v.(map[string]any)
	if !ok || len(m) == 0 {
		if v == nil {
			return []goldens.Op{{Op: "del", Path: place}}
		}
		return []goldens.Op{{Op: "set", Path: place, Value: v}}
	}
	var out []goldens.Op
	for _, k := range sortedKeys(m) {
		out = append(out, leaves(place+"/"+escape(k), m[k])...)
	}
	return out
}

func escape(k string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(k) }

// place is one of a document, below some fields ("": any but what says which object it is).
func (g *generator) place(doc map[string]any, below ...string) string {
	var all []string
	var walk func(place string, v any)
	walk = func(place string, v any) {
		all = append(all, place)
		switch t := v.(type) {
		case map[string]any:
			for _, k := range sortedKeys(t) {
				walk(place+"/"+escape(k), t[k])
			}
		case []any:
			for i := range t {
				walk(place+"/"+strconv.Itoa(i), t[i])
			}
		}
	}
	for _, k := range sortedKeys(doc) {
		if below[0] == "" && !slices.Contains([]string{"apiVersion", "kind", "metadata"}, k) || slices.Contains(below, k) {
			walk("/"+k, doc[k])
		}
	}
	if len(all) == 0 {
		return ""
	}
	return pick(g, all...)
}

// changed is a value like another, but not the same.
func (g *generator) changed(v any) any {
	switch t := v.(type) {
	case string:
		return pick[any](g, "", t+"x", "other", t+"2", nil, 5)
	case float64:
		return pick[any](g, 0, t+1, -1, t-1, nil, fmt.Sprint(t))
	case bool:
		return !t
	case []any:
		switch {
		case len(t) == 0:
			return []any{"x"}
		case g.chance(30):
			return append(slices.Clone(t), clone(t[0]))
		case g.chance(40):
			return t[1:]
		case g.chance(50):
			out := slices.Clone(t)
			slices.Reverse(out)
			return out
		}
		return []any{}
	case map[string]any:
		out := clone(t)
		switch keys := sortedKeys(t); {
		case g.chance(40) && len(keys) > 0:
			delete(out, pick(g, keys...))
		case g.chance(50) && len(keys) > 0:
			out["x"] = clone(t[keys[0]])
		default:
			out = map[string]any{}
		}
		return out
	}
	return "x"
}

func (g *generator) editMetadata(o object) []goldens.Op {
	set := func(place string, v any) []goldens.Op {
		return []goldens.Op{{Op: "set", Path: "/metadata/" + place, Value: v}}
	}
	switch g.IntN(16) {
	case 0, 1:
		return set("labels/"+pick(g, "app", "x", "y"), pick(g, "golden", "y", "z"))
	case 2:
		return set("annotations/"+pick(g, "a", "kubectl.kubernetes.io~1last-applied-configuration", "deployment.kubernetes.io~1revision"), pick(g, "1", "{}", "b"))
	case 3, 4:
		return set("finalizers", pick[any](g, []any{"example.com/a"}, []any{"example.com/a", "example.com/b"}, []any{"example.com/b"}, []any{"foregroundDeletion"},
			[]any{"orphan"}, []any{"bad"}, []any{"kubernetes"}, []any{"kubernetes.io/pvc-protection"}, []any{"example.com/a", "example.com/a"}))
	case 5, 6, 7:
		return set("finalizers", pick[any](g, []any{}, nil))
	case 8, 9:
		p := pick(g, g.objects...)
		owner := map[string]any{"apiVersion": p.apiVersion(), "kind": p.kind.kind, "name": p.name, "uid": "${uid:" + p.path(p.root()) + "}"}
		if g.chance(30) {
			owner["controller"] = true
		}
		if g.chance(30) {
			owner["blockOwnerDeletion"] = g.chance(60)
		}
		return set("ownerReferences", pick[any](g, []any{owner}, []any{owner}, []any{owner, owner}, []any{}))
	case 10:
		return set("generation", pick[any](g, 7, 0, nil))
	case 11:
		return set("deletionTimestamp", pick[any](g, "2024-01-01T00:00:00Z", nil))
	case 12:
		return set("deletionGracePeriodSeconds", pick[any](g, 5, nil))
	case 13:
		return set("creationTimestamp", pick[any](g, "2024-01-01T00:00:00Z", nil))
	case 14:
		return set("managedFields", pick[any](g, []any{}, []any{map[string]any{}}, []any{map[string]any{"manager": "m1", "operation": "Apply", "apiVersion": o.apiVersion(),
			"fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:metadata": map[string]any{"f:labels": map[string]any{"f:app": map[string]any{}}}}}}))
	}
	return set(pick(g, "name", "namespace", "generateName", "selfLink", "uid"), pick[any](g, "other", "", nil))
}
