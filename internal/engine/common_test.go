package engine

import (
	"errors"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A value is decoded once as one kind at one revision. What is anything else is decoded for whoever asks.
func TestCommonDecoded(t *testing.T) {
	value, empty := []byte("a role"), []byte{}
	c := NewCommon(slices.Values([][]byte{value, empty}))
	role := rbacv1.SchemeGroupVersion.WithKind("ClusterRole")
	made := 0
	decode := func() (Object, error) { made++; return &rbacv1.ClusterRole{}, nil }
	if _, err := c.decoded(value, role, 1, func() (Object, error) { return nil, errors.New("not now") }); err == nil {
		t.Error("an error is none")
	}
	first, err := c.decoded(value, role, 1, decode)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		common *Common
		value  []byte
		kind   schema.GroupVersionKind
		rev    int64
		same   bool
	}{
		"again":           {c, value, role, 1, true},
		"an equal value":  {c, slices.Clone(value), role, 1, false},
		"another kind":    {c, value, rbacv1.SchemeGroupVersion.WithKind("Role"), 1, false},
		"a later one":     {c, value, role, 2, false},
		"an empty value":  {c, empty, role, 1, false},
		"nothing common":  {nil, value, role, 1, false},
		"no value at all": {c, nil, role, 1, false},
	} {
		before := made
		got, err := test.common.decoded(test.value, test.kind, test.rev, decode)
		if err != nil || (got == first) != test.same || (made == before) != test.same {
			t.Errorf("%s: decoded anew %v, %v", name, made != before, err)
		}
	}
	n := 0
	if c.Each(func(o Object) { n++ }); n != 1 {
		t.Errorf("%d objects", n)
	}
}
