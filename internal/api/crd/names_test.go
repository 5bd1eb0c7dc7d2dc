package crd

import (
	"slices"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// If two servers accepted one name for two definitions, the later definition is found, whichever of them a server sees
// last.
func TestLatecomers(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	names := func(plural, short, kind string) apiextensionsv1.CustomResourceDefinitionNames {
		return apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: plural + "-one", ShortNames: []string{short}, Kind: kind, ListKind: kind + "List"}
	}
	first := &definition{name: "a.g", group: "g", uid: "1", created: began, accepted: names("a", "s", "Kind")}
	for what, c := range map[string]struct {
		names apiextensionsv1.CustomResourceDefinitionNames
		late  bool
	}{
		"kind":                        {names("b", "t", "Kind"), true},
		"kind that is a list's":       {names("b", "t", "KindList"), true},
		"short name":                  {names("b", "s", "Other"), true},
		"short name that is a name":   {names("b", "a-one", "Other"), true},
		"no name":                     {names("b", "t", "Other"), false},
		"nothing, having none so far": {apiextensionsv1.CustomResourceDefinitionNames{}, false},
	} {
		for _, created := range []time.Time{began, began.Add(time.Second)} {
			second := &definition{name: "b.g", group: "g", uid: "2", created: created, accepted: c.names}
			s := &Server{groups: map[string]map[string]*definition{"g": {first.name: first, second.name: second}}}
			var want []string
			if c.late {
				want = []string{second.name}
			}
			if got := s.latecomers(first); !slices.Equal(got, want) {
				t.Errorf("%s in common, the first seen last: %v come late, want %v", what, got, want)
			}
			if got := s.latecomers(second); !slices.Equal(got, want) {
				t.Errorf("%s in common, the second seen last: %v come late, want %v", what, got, want)
			}
		}
	}
}
