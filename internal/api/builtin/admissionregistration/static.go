package admissionregistration

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/admission/manifest"
)

const forManifests = `names ending with "` + manifest.Suffix + `" are reserved for static manifest-based configurations and cannot be managed via the API`

// reserves has rules of a kind refuse new objects whose names are for manifests.
func (v *validator) reserves(r engine.Rules) engine.Rules {
	validate := r.Validate
	r.Validate = func(ctx context.Context, obj engine.Object) field.ErrorList {
		errs := validate(ctx, obj)
		if v.Manifests && isStatic(obj) {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), obj.GetName(), forManifests))
		}
		return errs
	}
	return r
}

func isStatic(obj engine.Object) bool { return strings.HasSuffix(obj.GetName(), manifest.Suffix) }

// warnName warns of a name that is for manifests: of a new object if it is not refused, and of one that is there already.
func warnName[T engine.Object](v *validator) func(ctx context.Context, obj, old T) []string {
	return func(_ context.Context, obj, old T) []string {
		var none T
		if created := any(old) == any(none); !isStatic(obj) || created && v.Manifests {
			return nil
		}
		return []string{"metadata.name: " + forManifests}
	}
}
