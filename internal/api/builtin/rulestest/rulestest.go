// Package rulestest tests the rules of built-in kinds: it applies edits to an object and compares the errors.
package rulestest

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/yaml"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Case is an edit of an object.
type Case struct {
	Name string
	Edit string   // YAML, as a JSON merge patch
	Want []string // "spec.replicas Invalid" for each error; none: it is valid
}

// Kind is a resource and a valid object of it.
type Kind struct {
	resource *engine.Resource
	version  *engine.Version
	base     string
}

// Of returns the resource with a plural name; base is an object, as YAML.
func Of(t *testing.T, resources []*engine.Resource, plural, base string) Kind {
	t.Helper()
	i := slices.IndexFunc(resources, func(r *engine.Resource) bool { return r.Plural == plural })
	if i < 0 {
		t.Fatalf("no resource %s", plural)
	}
	r := resources[i]
	v := slices.IndexFunc(r.Versions, func(v *engine.Version) bool { return v.GroupVersion == r.Hub })
	k := Kind{resource: r, version: r.Versions[v], base: base}
	if _, faults := k.Created(t, ""); len(faults) > 0 {
		t.Fatalf("%s: base has faults: %v", plural, faults)
	}
	return k
}

// Context returns the context with which rules are called: a request by an ordinary user.
func Context() context.Context {
	return request.WithUser(context.Background(), &user.DefaultInfo{Name: "jane", UID: "7", Groups: []string{"dev"}})
}

// Decoded returns the base with an edit, decoded like a request's body.
func (k Kind) Decoded(t *testing.T, edit string) engine.Object {
	t.Helper()
	doc, err := yaml.YAMLToJSON([]byte(k.base))
	if err != nil {
		t.Fatal(err)
	}
	if edit != "" {
		patch, err := yaml.YAMLToJSON([]byte(edit))
		if err != nil {
			t.Fatal(err)
		}
		if doc, err = jsonpatch.MergePatch(doc, patch); err != nil {
			t.Fatal(err)
		}
	}
	obj := k.version.New()
	if err := json.Unmarshal(doc, obj); err != nil {
		t.Fatal(err)
	}
	if k.version.Default != nil {
		k.version.Default(obj)
	}
	return obj
}

// Created creates the base with an edit and returns what would be stored.
func (k Kind) Created(t *testing.T, edit string) (engine.Object, []string) {
	t.Helper()
	obj := k.Decoded(t, edit)
	obj.SetUID("5eb0f0c1-0000-4000-8000-000000000001")
	if k.resource.Namespaced && obj.GetNamespace() == "" {
		obj.SetNamespace("default")
	}
	if prepare := k.resource.Rules.PrepareCreate; prepare != nil {
		prepare(Context(), obj)
	}
	return obj, list(k.resource.Rules.Validate(Context(), obj))
}

// Updated updates the base, as stored, to the base with an edit, through a subresource or, if that is empty, the main
// resource.
func (k Kind) Updated(t *testing.T, subresource, edit string) (engine.Object, []string) {
	t.Helper()
	old, _ := k.Created(t, "")
	old.SetResourceVersion("1")
	return k.UpdatedFrom(t, subresource, old, edit)
}

// UpdatedFrom is Updated for a stored object other than the base.
func (k Kind) UpdatedFrom(t *testing.T, subresource string, old engine.Object, edit string) (engine.Object, []string) {
	t.Helper()
	r := &k.resource.Rules
	if subresource != "" {
		i := slices.IndexFunc(k.resource.Subresources, func(s *engine.Subresource) bool { return s.Name == subresource })
		if i < 0 {
			t.Fatalf("no subresource %s", subresource)
		}
		r = k.resource.Subresources[i].Rules
	}
	obj := k.Decoded(t, edit)
	obj.SetNamespace(old.GetNamespace())
	obj.SetUID(old.GetUID())
	obj.SetResourceVersion("1")
	obj.SetGeneration(old.GetGeneration())
	old = old.DeepCopyObject().(engine.Object)
	if r.PrepareUpdate != nil {
		r.PrepareUpdate(Context(), obj, old)
	}
	return obj, list(r.ValidateUpdate(Context(), obj, old))
}

// Create runs cases as creations.
func (k Kind) Create(t *testing.T, cases []Case) {
	t.Helper()
	for _, c := range cases {
		t.Run("create/"+c.Name, func(t *testing.T) {
			_, got := k.Created(t, c.Edit)
			compare(t, got, c.Want)
		})
	}
}

// Update runs cases as updates of the base.
func (k Kind) Update(t *testing.T, subresource string, cases []Case) {
	t.Helper()
	for _, c := range cases {
		t.Run("update"+subresource+"/"+c.Name, func(t *testing.T) {
			_, got := k.Updated(t, subresource, c.Edit)
			compare(t, got, c.Want)
		})
	}
}

func compare(t *testing.T, got, want []string) {
	t.Helper()
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Errorf("faults:\n got %q\nwant %q", got, want)
	}
}

func list(errs field.ErrorList) []string {
	var out []string
	for _, err := range errs {
		out = append(out, err.Field+" "+strings.TrimPrefix(string(err.Type), "FieldValue"))
	}
	slices.Sort(out)
	return slices.Compact(out)
}
