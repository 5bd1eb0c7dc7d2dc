package builtin_test

import (
	"slices"
	"testing"

	"github.com/kanzen-io/kanzen/internal/api/builtin"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/podspec"
)

// Control planes with the same settings have the same kinds of groups that need nothing of them. What one of them serves, or warns of, does
// not change those of others, and neither do other features.
func TestShared(t *testing.T) {
	gates, err := features.Parse([]string{"CBORServingAndStorage=true"}, features.Now())
	if err != nil {
		t.Fatal(err)
	}
	everything, err := builtin.Choose([]string{"api/all=true"})
	if err != nil {
		t.Fatal(err)
	}
	usual, err := builtin.Choose(nil)
	if err != nil {
		t.Fatal(err)
	}
	shared := new(builtin.Shared)
	kind := func(d builtin.Deps, plural string) *engine.Resource {
		t.Helper()
		all := builtin.Resources(d)
		builtin.WarnUnattended(all, nil, nil)
		n := slices.IndexFunc(all, func(r *engine.Resource) bool { return r.Plural == plural })
		if n < 0 {
			t.Fatalf("no %s", plural)
		}
		return all[n]
	}
	served := func(r *engine.Resource) (out []string) {
		for _, v := range r.Versions {
			out = append(out, v.String())
		}
		return out
	}
	const some, warned, narrowed = "networkpolicies", "deployments", "ipaddresses"
	first := kind(builtin.Deps{Shared: shared, Chosen: usual}, some)
	if kind(builtin.Deps{Shared: shared, Chosen: everything}, some) != first {
		t.Error("two control planes have the kind twice")
	}
	strict := builtin.Deps{Shared: shared, Chosen: usual}
	for _, p := range []*podspec.Policy{&strict.Core.Pods, &strict.Apps.Pods, &strict.Batch.Pods} {
		p.ForbidPrivileged = true
	}
	for what, d := range map[string]builtin.Deps{
		"other features": {Shared: shared, Gates: gates}, "not shared": {}, "other rules for pods": strict,
	} {
		if kind(d, some) == first {
			t.Errorf("%s: the kind is that of others", what)
		}
	}
	one, other := kind(builtin.Deps{Shared: shared}, warned), kind(builtin.Deps{Shared: shared}, warned)
	if one == other {
		t.Error("control planes share the warnings of a kind")
	}
	for _, c := range []*builtin.Chosen{usual, everything, usual} {
		if got, want := served(kind(builtin.Deps{Shared: shared, Chosen: c}, narrowed)), served(kind(builtin.Deps{Chosen: c}, narrowed)); !slices.Equal(got, want) {
			t.Errorf("%s are served in %v, want %v", narrowed, got, want)
		}
	}
}
