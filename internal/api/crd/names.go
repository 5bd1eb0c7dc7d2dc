package crd

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// taken are the accepted names of the other definitions in a group. The value is true if an older definition has the
// name: if two servers accept the same name concurrently, the older definition keeps it.
type taken struct {
	resources, kinds map[string]bool
}

func (t *taken) add(n apiextensionsv1.CustomResourceDefinitionNames, first bool) {
	for _, r := range append([]string{n.Plural, n.Singular}, n.ShortNames...) {
		t.resources[r] = t.resources[r] || first
	}
	for _, k := range []string{n.Kind, n.ListKind} {
		t.kinds[k] = t.kinds[k] || first
	}
}

// denies reports whether a definition that has one name and requests another cannot get it.
func denies(used map[string]bool, want, have string) bool {
	first, ok := used[want]
	return ok && (want != have || first)
}

// latecomers returns the definitions that share an accepted name with an older one, of all pairs that contain d. s.mu
// is held.
func (s *Server) latecomers(d *definition) []string {
	var late []string
	for name, other := range s.groups[d.group] {
		switch {
		case name == d.name || !shareNames(&d.accepted, &other.accepted):
		case d.cameBefore(other):
			late = append(late, name)
		default:
			late = append(late, d.name)
		}
	}
	return late
}

// shareNames reports whether two definitions have an accepted name in common.
func shareNames(a, b *apiextensionsv1.CustomResourceDefinitionNames) bool {
	if a.Kind != "" && (a.Kind == b.Kind || a.Kind == b.ListKind) || a.ListKind != "" && (a.ListKind == b.Kind || a.ListKind == b.ListKind) {
		return true
	}
	has := func(n *apiextensionsv1.CustomResourceDefinitionNames, name string) bool {
		return name != "" && (n.Plural == name || n.Singular == name || slices.Contains(n.ShortNames, name))
	}
	return has(b, a.Plural) || has(b, a.Singular) || slices.ContainsFunc(a.ShortNames, func(name string) bool { return has(b, name) })
}

// acceptNames accepts the requested names that are free, and sets the conditions. It reports whether that changed
// anything.
func (c *controller) acceptNames(d *apiextensionsv1.CustomResourceDefinition, t taken) bool {
	names, conflict := freeNames(d.Spec.Names, d.Status.AcceptedNames, t)
	changed := !equality.Semantic.DeepEqual(names, d.Status.AcceptedNames)
	d.Status.AcceptedNames = names
	accepted := condition{
		Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue,
		Reason: "NoConflicts", Message: "no conflicts found",
	}
	if conflict != nil {
		accepted.Status, accepted.Reason, accepted.Message = apiextensionsv1.ConditionFalse, conflict.reason, conflict.message
		if findCondition(d, apiextensionsv1.Established) == nil {
			setCondition(d, condition{
				Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse,
				Reason: "NotAccepted", Message: "not all names are accepted",
			}, c.Clock)
			changed = true
		}
	}
	return setCondition(d, accepted, c.Clock) || changed
}

// nameConflict is the reason why names were not accepted.
type nameConflict struct{ reason, message string }

// freeNames returns the names that a definition gets, which has some names and requests others. Of several conflicts it
// returns the last, as kube-apiserver does.
func freeNames(want, have apiextensionsv1.CustomResourceDefinitionNames, t taken) (apiextensionsv1.CustomResourceDefinitionNames, *nameConflict) {
	got := have
	var conflict *nameConflict
	one := func(want, have string, into *string, used map[string]bool, reason string) {
		if denies(used, want, have) {
			if want == have {
				*into = ""
			}
			conflict = &nameConflict{reason, fmt.Sprintf("%q is already in use", want)}
			return
		}
		*into = want
	}
	one(want.Plural, have.Plural, &got.Plural, t.resources, "PluralConflict")
	one(want.Singular, have.Singular, &got.Singular, t.resources, "SingularConflict")
	var busy []string
	for _, s := range want.ShortNames {
		if first, ok := t.resources[s]; ok && (first || !slices.Contains(have.ShortNames, s)) {
			busy = append(busy, fmt.Sprintf("%q is already in use", s))
		}
	}
	switch len(busy) {
	case 0:
		got.ShortNames = want.ShortNames
	case 1:
		conflict = &nameConflict{"ShortNamesConflict", busy[0]}
	default:
		conflict = &nameConflict{"ShortNamesConflict", "[" + strings.Join(busy, ", ") + "]"}
	}
	one(want.Kind, have.Kind, &got.Kind, t.kinds, "KindConflict")
	one(want.ListKind, have.ListKind, &got.ListKind, t.kinds, "ListKindConflict")
	got.Categories = want.Categories
	return got, conflict
}
