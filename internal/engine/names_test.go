package engine

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestKinds completes what a kind leaves out, and leaves alone what it says.
func TestKinds(t *testing.T) {
	old, now := schema.GroupVersion{Group: "g", Version: "v1beta1"}, schema.GroupVersion{Group: "g", Version: "v1"}
	versions := []*Version{{GroupVersion: now}, {GroupVersion: old}}
	plain := &Resource{Plural: "gadgets", Kind: "Gadget", Versions: versions}
	odd := &Resource{Plural: "gadgets", Singular: "g", Kind: "Gadget", Prefix: "old/gadgets", Hub: old, Versions: versions}
	review := &Resource{Plural: "reviews", Kind: "Review", Versions: versions,
		Create: func(context.Context, Object, Check, *metav1.CreateOptions) (Object, error) { return nil, nil }}
	Kinds(plain, odd, review)
	for _, c := range []struct {
		r                *Resource
		singular, prefix string
		hub              schema.GroupVersion
	}{{plain, "gadget", "gadgets", now}, {odd, "g", "old/gadgets", old}, {review, "review", "", now}} {
		if c.r.Singular != c.singular || c.r.Prefix != c.prefix || c.r.Hub != c.hub {
			t.Errorf("%s: got %q, %q, %s; want %q, %q, %s", c.r.Plural, c.r.Singular, c.r.Prefix, c.r.Hub, c.singular, c.prefix, c.hub)
		}
	}
}
