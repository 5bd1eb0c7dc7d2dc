package resource

import (
	"math"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// derived validates the attributes that the requests of a claim derive. Together they must not cost too much.
type derived struct {
	cel  *expressions
	used map[string][]string
	cost uint64
}

// constrained returns the attributes that constraints compare, by the request or subrequest ("gpu/small") that they are
// about; "": by all.
func constrained(constraints []resourcev1.DeviceConstraint) map[string][]string {
	out := map[string][]string{}
	for i := range constraints {
		c := &constraints[i]
		name := c.MatchAttribute
		if name == nil {
			name = c.DistinctAttribute
		}
		if name == nil {
			continue
		}
		of := c.Requests
		if len(of) == 0 {
			of = []string{""}
		}
		for _, r := range of {
			out[r] = append(out[r], string(*name))
		}
	}
	return out
}

// check validates the attributes of a request, which has these names in constraints. Each must be used by one.
func (d *derived) check(attributes []resourcev1.DeviceDerivedAttribute, e rules.Errors, requests ...string) {
	at := e.Field("derivedAttributes")
	tooMany := len(attributes) > resourcev1.DeviceDerivedAttributesMaxSize
	if tooMany {
		at.AddError(field.TooMany(at.Path(), len(attributes), resourcev1.DeviceDerivedAttributesMaxSize))
	}
	set(attributes, math.MaxInt, at, func(a *resourcev1.DeviceDerivedAttribute) string { return string(a.Name) },
		func(a *resourcev1.DeviceDerivedAttribute, e rules.Errors) {
			name := string(a.Name)
			if !tooMany {
				if e.Present("name", name) {
					fullName("name", name, e)
				}
				e.Present("expression", a.Expression)
			}
			if name != "" && !d.isUsed(name, requests) {
				e.Field("name").Invalid(name, "must be used by a constraint of the request")
			}
			if a.Expression != "" {
				d.cost += d.cel.attribute(e.Field("expression"), a.Expression)
			}
		})
}

func (d *derived) isUsed(name string, requests []string) bool {
	return slices.ContainsFunc(append(requests, ""), func(r string) bool { return slices.Contains(d.used[r], name) })
}

func (d *derived) checkCost(e rules.Errors) {
	if d.cost > resourcev1.DeviceClaimDerivedAttributeCELMaxCost {
		e.Forbidden("too complex, the derived attributes together may cost more than the limit")
	}
}
