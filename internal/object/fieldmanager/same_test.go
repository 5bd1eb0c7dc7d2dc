package fieldmanager

import (
	"encoding/json"
	"maps"
	"math/rand"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	"github.com/kanzen-io/kanzen/internal/object/apitype"
	"github.com/kanzen-io/kanzen/internal/object/equal"
)

// Values that differ in JSON are not taken for the same, and copies are.
func TestSame(t *testing.T) {
	if testing.Short() {
		t.Skip("no goroutines meet here, and the race detector makes it fifty times slower")
	}
	typ := apitype.Of(reflect.TypeFor[*corev1.PodSpec]())
	same := func(a, b *corev1.PodSpec) bool { return equal.Same(typ, reflect.ValueOf(a), reflect.ValueOf(b)) }
	for _, text := range []string{`{"nodeSelector":{"a":"b"}}`, `{"nodeSelector":{"a":"c"}}`, `{"nodeSelector":{"b":"b"}}`, `{"nodeSelector":{}}`, `{}`,
		`{"overhead":{"cpu":"1"}}`, `{"overhead":{"cpu":"2"}}`, `{"containers":[]}`, `{"containers":[{"command":["a"]}]}`, `{"containers":[{"command":["b"]}]}`} {
		for _, other := range []string{`{"nodeSelector":{"a":"b"}}`, `{"overhead":{"cpu":"1"}}`, `{"containers":[{"command":["a"]}]}`, `{}`} {
			a, b := &corev1.PodSpec{}, &corev1.PodSpec{}
			if json.Unmarshal([]byte(text), a) != nil || json.Unmarshal([]byte(other), b) != nil {
				t.Fatal("no spec")
			}
			if same(a, b) != (text == other) {
				t.Errorf("%s and %s: %v", text, other, same(a, b))
			}
		}
	}
	changes := 0
	for seed := range int64(150) {
		r := rand.New(rand.NewSource(seed))
		spec := &corev1.PodSpec{}
		randfill.NewWithSeed(seed).NilChance(0.5).NumElements(1, 2).Funcs(
			func(q *resource.Quantity, c randfill.Continue) {
				*q = *resource.NewQuantity(int64(c.Intn(9)), resource.DecimalSI)
			},
			func(v *intstr.IntOrString, c randfill.Continue) { *v = intstr.FromInt32(int32(c.Intn(9))) },
			func(m *metav1.ObjectMeta, _ randfill.Continue) { m.Labels = map[string]string{"a": "b"} },
			func(v *metav1.Time, _ randfill.Continue) { v.Time = metav1.Unix(1, 0).Time },
		).Fill(spec)
		before := asJSON(t, spec)
		read := &corev1.PodSpec{} // a quantity that was read is not the same as one that was made
		if err := json.Unmarshal([]byte(before), read); err != nil {
			t.Fatal(err)
		}
		if !same(read, read.DeepCopy()) {
			t.Fatalf("a copy of %s is not the same", before)
		}
		for range 15 {
			doc := map[string]any{}
			if err := json.Unmarshal([]byte(before), &doc); err != nil {
				t.Fatal(err)
			}
			alter(r, doc)
			other := &corev1.PodSpec{}
			if b, err := json.Marshal(doc); err != nil || json.Unmarshal(b, other) != nil {
				continue
			}
			if asJSON(t, other) == before {
				continue
			}
			if changes++; same(read, other) {
				t.Fatalf("taken for the same:\n%s\n%s", before, asJSON(t, other))
			}
		}
	}
	if changes < 800 {
		t.Errorf("%d changes: too few", changes)
	}
}

func asJSON(t *testing.T, v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// alter changes something in a document.
func alter(r *rand.Rand, doc map[string]any) {
	for {
		names := slices.Sorted(maps.Keys(doc))
		if len(names) == 0 {
			doc["name"] = "added"
			return
		}
		name := names[r.Intn(len(names))]
		v := doc[name]
		if items, ok := v.([]any); ok && len(items) > 0 {
			v = items[r.Intn(len(items))]
		}
		if below, ok := v.(map[string]any); ok && r.Intn(6) > 0 {
			doc = below
			continue
		}
		switch v := doc[name].(type) {
		case string:
			doc[name] = v + "x"
		case bool:
			doc[name] = !v
		case float64:
			doc[name] = v + 1
		default:
			delete(doc, name)
		}
		return
	}
}
