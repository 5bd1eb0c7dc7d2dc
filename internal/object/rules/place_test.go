package rules

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Places have the paths that field.Path would have, also those that are asked for late, after many others.
func TestPlaces(t *testing.T) {
	for _, root := range []*field.Path{nil, field.NewPath("spec")} {
		e := At(root)
		var got, want []string
		var all []Errors
		for i := range 3 * manyPlaces {
			all = append(all, e.Field("a").Item(i).Key("k").Field("b"), e.Item(i), e.Elsewhere(field.NewPath("x")).Apart().Field("c"))
			want = append(want, root.Child("a").Index(i).Key("k").Child("b").String(), root.Index(i).String(), "x.c")
		}
		for _, e := range all {
			got = append(got, e.Path().String())
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s instead of %s", got[i], want[i])
			}
		}
		if e.Path() != root {
			t.Errorf("the path became %v", e.Path())
		}
	}
	if n := testing.AllocsPerRun(100, func() {
		e := At(nil)
		for i := range 100 {
			e.Field("a").Item(i).Positive("b", 1)
		}
	}); n > 10 {
		t.Errorf("%v allocations", n)
	}
}
