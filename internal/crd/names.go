package crd

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// taken are the names that other definitions of a group have been given: false
// by those that came later. Two may have been given one name by two servers at
// once; then the one that came first keeps it.
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

// denies says whether a definition that has one name and wants another cannot
// have that.
func denies(used map[string]bool, want, have string) bool {
	first, ok := used[want]
	return ok && (want != have || first)
}

// clashes says whether a definition has a name that one has which came before it.
func (s *Server) clashes(d *definition) bool {
	for name, other := range s.groups[d.group] {
		if name != d.name && d.accepted.Kind != "" && other.cameBefore(d) &&
			(other.accepted.Kind == d.accepted.Kind || other.accepted.ListKind == d.accepted.ListKind || other.accepted.Singular == d.accepted.Singular) {
			return true
		}
	}
	return false
}

// acceptNames gives a definition those of the names it asks for that are free,
// and says so in its conditions. It reports whether that changed anything.
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

// nameConflict is why names were not accepted.
type nameConflict struct{ reason, message string }

// freeNames is what a definition that has some names and wants others gets: of
// several conflicts the last is told, as kube-apiserver does.
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
