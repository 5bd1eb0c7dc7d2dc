package scheduling

import (
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/features"
)

// The types of this group come with functions that validate what their fields declare. The rest is in this package.

// create is the creation of an object, for the declared validation.
func (d Deps) create() operation.Operation {
	options := map[string]bool{}
	for _, gate := range []string{
		features.CompositePodGroup, features.DRAWorkloadResourceClaims, features.PodGroupPreemptionPolicy, features.TopologyAwareWorkloadScheduling,
	} {
		options[gate] = d.Gates.Enabled(gate)
	}
	return operation.Operation{Type: operation.Create, Options: options}
}

// update is the update of an object or its subresources.
func (d Deps) update(subresources ...string) operation.Operation {
	op := d.create()
	op.Type, op.Request.Subresources = operation.Update, subresources
	return op
}

// declared returns the errors of declared validation that count. An alpha rule does not: another rule, which is written by
// hand, does its work.
func declared(errs field.ErrorList) field.ErrorList {
	var out field.ErrorList
	for _, err := range errs {
		if !err.IsAlpha() {
			out = append(out, err)
		}
	}
	return out
}
