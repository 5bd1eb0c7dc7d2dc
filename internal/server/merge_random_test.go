package server

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

const boxes = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"boxes.merge.example.com"},"spec":{"group":"merge.example.com","scope":"Namespaced",
	"names":{"plural":"boxes","kind":"Box"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{
	"fields":{"type":"object","additionalProperties":{"type":"string"}},
	"parts":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"value":{"type":"string"}}}},
	"tags":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
	"whole":{"type":"array","x-kubernetes-list-type":"atomic","items":{"type":"string"}}}}}}}}]}}`

const boxesPath = "/apis/merge.example.com/v1/namespaces/default/boxes"

// box is the model of an object: its fields, each with its owners. The key of a field says what it is: label, field, part, tag or whole.
type box struct {
	life   int // another number, another object of the name
	fields map[string]string
	owners map[string]string // names with a comma after each, sorted
	// unsorted says that parts or tags are in another order than object gives them: a merge has put them so, and the next edit changes it.
	unsorted bool
}

func (b *box) clone() *box {
	if b == nil {
		return nil
	}
	return &box{b.life, maps.Clone(b.fields), maps.Clone(b.owners), b.unsorted}
}

func boxKeys() (out []string) {
	for _, kind := range []string{"label", "field", "part", "tag"} {
		out = append(out, kind+" a", kind+" b")
	}
	return append(out, "whole w")
}

// edit changes a box at random, as a manager.
func (b *box) edit(r *rand.Rand, lives *int, manager string) *box {
	switch {
	case b == nil || r.IntN(12) == 0: // made, or made anew
		*lives++
		b = &box{life: *lives, fields: map[string]string{}}
	case r.IntN(8) == 0:
		return nil
	}
	was := b.clone()
	b.unsorted = false
	for range 1 + r.IntN(3) {
		keys := boxKeys()
		key, value := keys[r.IntN(len(keys))], []string{"", "1", "2", "3"}[r.IntN(4)]
		if strings.HasPrefix(key, "tag") && value != "" {
			value = "1"
		}
		if value == "" {
			delete(b.fields, key)
		} else {
			b.fields[key] = value
		}
	}
	b.owners = map[string]string{}
	for key, value := range b.fields {
		if b.owners[key] = was.owners[key]; was.fields[key] != value {
			b.owners[key] = manager + ","
		}
	}
	return b
}

// object is a box as an object.
func (b *box) object(name string) map[string]any {
	labels, fields := map[string]any{}, map[string]any{}
	parts, tags, whole := []any{}, []any{}, []any{}
	for _, key := range slices.Sorted(maps.Keys(b.fields)) {
		kind, name, _ := strings.Cut(key, " ")
		switch v := b.fields[key]; kind {
		case "label":
			labels[name] = v
		case "field":
			fields[name] = v
		case "part":
			parts = append(parts, map[string]any{"name": name, "value": v})
		case "tag":
			tags = append(tags, name)
		case "whole":
			whole = append(whole, v, "x")
		}
	}
	spec := map[string]any{}
	for name, v := range map[string]any{"fields": fields, "parts": parts, "tags": tags, "whole": whole} {
		if reflect.ValueOf(v).Len() > 0 {
			spec[name] = v
		}
	}
	return map[string]any{"apiVersion": "merge.example.com/v1", "kind": "Box", "metadata": map[string]any{"name": name, "labels": labels}, "spec": spec}
}

// boxOf reads an object, with the owners of its fields.
func boxOf(t *testing.T, raw []byte) *box {
	t.Helper()
	var o struct {
		Metadata metav1.ObjectMeta
		Spec     struct {
			Fields      map[string]string
			Parts       []struct{ Name, Value string }
			Tags, Whole []string
		}
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		t.Fatal(err)
	}
	b := &box{fields: map[string]string{}, owners: map[string]string{}}
	note := func(key, value string, path ...any) {
		b.fields[key] = value
		at := fieldpath.MakePathOrDie(path...)
		var names []string
		for _, e := range o.Metadata.ManagedFields {
			set := fieldpath.NewSet()
			if err := set.FromJSON(bytes.NewReader(e.FieldsV1.GetRawBytes())); err != nil {
				t.Fatal(err)
			}
			if set.Has(at) {
				names = append(names, e.Manager+",")
			}
		}
		slices.Sort(names)
		b.owners[key] = strings.Join(names, "")
	}
	for name, v := range o.Metadata.Labels {
		note("label "+name, v, "metadata", "labels", name)
	}
	for name, v := range o.Spec.Fields {
		note("field "+name, v, "spec", "fields", name)
	}
	for _, p := range o.Spec.Parts {
		note("part "+p.Name, p.Value, "spec", "parts", fieldpath.KeyByFields("name", p.Name), "value")
	}
	for _, tag := range o.Spec.Tags {
		note("tag "+tag, "1", "spec", "tags", fieldpath.ValueElement(valueOf(tag)))
	}
	if len(o.Spec.Whole) > 0 {
		note("whole w", o.Spec.Whole[0], "spec", "whole")
	}
	var parts []string
	for _, p := range o.Spec.Parts {
		parts = append(parts, p.Name)
	}
	b.unsorted = !slices.IsSorted(parts) || !slices.IsSorted(o.Spec.Tags)
	return b
}

// mergedBox is what a merge makes of a box by the model, with our values where there are conflicts, and these: "" is the whole object.
func mergedBox(base, ours, theirs *box) (merged *box, conflicts []string) {
	same := func(a, b *box) bool {
		return a == nil && b == nil || a != nil && b != nil && a.life == b.life && maps.Equal(a.fields, b.fields) && a.unsorted == b.unsorted
	}
	switch {
	case ours == nil && theirs == nil, base != nil && theirs == nil && maps.Equal(base.fields, ours.fields) && base.unsorted == ours.unsorted:
		return nil, nil
	case ours == nil && base == nil:
		return theirs, nil
	case ours == nil && same(base, theirs):
		return nil, nil
	case ours == nil:
		return nil, []string{""}
	case theirs == nil && base != nil:
		return ours, []string{""}
	}
	if theirs == nil {
		return ours, nil
	}
	merged = &box{fields: map[string]string{}, owners: map[string]string{}}
	for _, key := range boxKeys() {
		b, o, th := fieldsOf(base)[key], ours.fields[key], theirs.fields[key]
		owners := mergedOwners(ownersOf(base)[key], ours.owners[key], theirs.owners[key])
		v := th
		switch {
		case o == th, o == b:
		case b == th:
			v = o
		default:
			conflicts = append(conflicts, key)
			v, owners = o, ours.owners[key]
		}
		if v != "" {
			merged.fields[key], merged.owners[key] = v, owners
		}
	}
	return merged, conflicts
}

func fieldsOf(b *box) map[string]string {
	if b == nil {
		return nil
	}
	return b.fields
}

func ownersOf(b *box) map[string]string {
	if b == nil {
		return nil
	}
	return b.owners
}

func mergedOwners(base, ours, theirs string) string {
	out := map[string]bool{}
	for _, name := range strings.SplitAfter(theirs, ",") {
		if strings.Contains(ours, name) || !strings.Contains(base, name) {
			out[name] = true
		}
	}
	for _, name := range strings.SplitAfter(ours, ",") {
		if !strings.Contains(base, name) {
			out[name] = true
		}
	}
	delete(out, "")
	return strings.Join(slices.Sorted(maps.Keys(out)), "")
}

var seedFlag = flag.Uint64("seed", 1, "of tests that make random requests; 0: another one each time")

// randomSeed is the same in each run, so that one that failed can be repeated. With -seed=0 it is another one each time.
func randomSeed() uint64 {
	if *seedFlag == 0 {
		return rand.Uint64()
	}
	return *seedFlag
}

// TestMergeRandom edits a few objects at random on a server and on a fork of it, and merges the fork. What is written, what is a conflict
// and who owns the fields afterwards is what a simple model says.
func TestMergeRandom(t *testing.T) {
	seed := randomSeed()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	s := start(t)
	rt := s.Transport(masters)
	ask := func(method, path, body string, want ...int) []byte {
		t.Helper()
		code, answer := send(t, rt, method, path, "application/json", body)
		if !slices.Contains(want, code) {
			t.Fatalf("%s %s: %d %s", method, path, code, answer)
		}
		return answer
	}
	ask(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", boxes, 201)
	eventually(t, func() bool { code, _ := send(t, rt, http.MethodGet, boxesPath, "", ""); return code == 200 })
	names := []string{"x", "y", "z"}
	write := func(prefix, name, manager string, was, is *box) {
		t.Helper()
		path := prefix + boxesPath
		if was != nil && (is == nil || is.life != was.life) {
			ask(http.MethodDelete, path+"/"+name, "", 200)
			was = nil
		}
		if is == nil {
			return
		}
		o := is.object(name)
		method, want := http.MethodPost, 201
		if was != nil {
			var now struct{ Metadata metav1.ObjectMeta }
			if err := json.Unmarshal(ask(http.MethodGet, path+"/"+name, "", 200), &now); err != nil {
				t.Fatal(err)
			}
			o["metadata"].(map[string]any)["resourceVersion"] = now.Metadata.ResourceVersion
			method, want, path = http.MethodPut, 200, path+"/"+name
		}
		body, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		ask(method, path+"?fieldManager="+manager, string(body), want)
	}
	check := func(what string, want map[string]*box) {
		t.Helper()
		for _, name := range names {
			code, raw := send(t, rt, http.MethodGet, boxesPath+"/"+name, "", "")
			if b := want[name]; b == nil {
				if code != http.StatusNotFound {
					t.Fatalf("%s: %s is there: %s", what, name, raw)
				}
			} else if got := boxOf(t, raw); code != 200 || !maps.Equal(got.fields, b.fields) || !maps.Equal(got.owners, b.owners) {
				t.Fatalf("%s: %s has %v %v, want %v %v\n%s", what, name, got.fields, got.owners, b.fields, b.owners, raw)
			}
		}
	}
	lives, clean, refused := 0, 0, 0
	theirs := map[string]*box{}
	rounds := 60
	if testing.Short() {
		rounds = 20
	}
	// As many as it takes for both outcomes, of which neither comes in some small number of rounds.
	lopsided := func() bool { return clean < rounds/10 || refused < rounds/10 }
	for n := 0; n < rounds || lopsided() && n < 20*rounds; n++ {
		fork := fmt.Sprintf("f%d", n)
		ask(http.MethodPost, "/forks/"+fork, "", 201)
		base, ours := map[string]*box{}, map[string]*box{}
		for _, name := range names {
			if theirs[name] != nil {
				theirs[name].unsorted = boxOf(t, ask(http.MethodGet, boxesPath+"/"+name, "", 200)).unsorted
			}
			base[name], ours[name] = theirs[name].clone(), theirs[name].clone()
			for range r.IntN(3) {
				was := ours[name].clone()
				ours[name] = ours[name].edit(r, &lives, "fork")
				write("/forks/"+fork, name, "fork", was, ours[name])
			}
			for range r.IntN(2) {
				was := theirs[name].clone()
				theirs[name] = theirs[name].edit(r, &lives, "server")
				write("", name, "server", was, theirs[name])
			}
		}
		merged, want := map[string]*box{}, map[string]bool{}
		for _, name := range names {
			var conflicts []string
			merged[name], conflicts = mergedBox(base[name], ours[name], theirs[name])
			for _, key := range conflicts {
				want[name+" "+key] = true
			}
		}
		what := fmt.Sprintf("seed %d, round %d", seed, n)
		check(what+", before", theirs)
		done, causes := mergeFork(t, s, fork, false, n%3 == 0)
		if got := conflictsOf(causes); !maps.Equal(got, want) {
			t.Fatalf("%s: conflicts %v, want %v\nbase %v\nours %v\ntheirs %v", what, got, want, base, ours, theirs)
		}
		if done == nil || n%3 == 0 {
			check(what+", after nothing was written", theirs)
		}
		if refused++; done != nil {
			refused, clean = refused-1, clean+1
		}
		if done == nil || n%3 == 0 {
			if done, causes = mergeFork(t, s, fork, true, false); done == nil {
				t.Fatalf("%s: refused although forced: %v", what, causes)
			}
			if len(done.Status.Overwritten) != len(want) {
				t.Fatalf("%s: %v were overwritten, want %v", what, done.Status.Overwritten, want)
			}
		}
		check(what+", merged", merged)
		if done, _ := mergeFork(t, s, fork, true, false); len(done.Status.Objects) > 0 && len(want) == 0 {
			t.Fatalf("%s: merged again: %v", what, done.Status)
		}
		ask(http.MethodDelete, "/forks/"+fork, "", 200)
		for _, name := range names { // another object, if it was written anew
			if merged[name] != nil {
				lives++
				merged[name].life = lives
			}
			theirs[name] = merged[name]
		}
	}
	t.Logf("%d merged, %d had conflicts", clean, refused)
	if lopsided() {
		t.Errorf("the test has become lopsided")
	}
}

// conflictsOf are conflicts as the model has them: the object, and the field.
func conflictsOf(causes []metav1.StatusCause) map[string]bool {
	out := map[string]bool{}
	for _, c := range causes {
		_, name, _ := strings.Cut(c.Message, "default/")
		name, _, _ = strings.Cut(name, ":")
		key := c.Field
		for from, to := range map[string]string{"metadata.labels.": "label ", "spec.fields.": "field ", `spec.parts[name="`: "part ", "spec.whole": "whole w"} {
			if rest, ok := strings.CutPrefix(c.Field, from); ok {
				rest, _, _ = strings.Cut(rest, `"]`)
				key = to + rest
			}
		}
		out[name+" "+key] = true
	}
	return out
}

func valueOf(v any) value.Value { return value.NewValueInterface(v) }
