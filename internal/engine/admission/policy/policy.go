package policy

import (
	"context"
	"log/slog"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/expr"
	"github.com/kanzen-io/kanzen/internal/engine/admission/match"
	"github.com/kanzen-io/kanzen/internal/engine/admission/measure"
	"github.com/kanzen-io/kanzen/internal/object/cel"
)

// The names of the plugins.
const (
	ValidatingName = "ValidatingAdmissionPolicy"
	MutatingName   = "MutatingAdmissionPolicy"
)

// Deps are the dependencies of the plugins. All fields are required except where noted.
type Deps struct {
	// The stored policies and bindings.
	ValidatingPolicies, ValidatingBindings admission.View
	MutatingPolicies, MutatingBindings     admission.View
	// Manifests has the policies and bindings of manifests, by the name of the plugin. Optional.
	Manifests  map[string]*Source
	Params     Params
	Namespaces Namespaces
	Authorizer authz.Authorizer
	Compiler   *cel.Compiler
	Metrics    *measure.Metrics
	Log        *slog.Logger
}

// Params finds parameters, objects of any kind that is served. The objects are
// shared and must not be changed. A missing one is an apierrors NotFound.
type Params interface {
	// Namespaced says whether a kind's objects are in namespaces; ok is false
	// if the kind is not served.
	Namespaced(kind schema.GroupVersionKind) (namespaced, ok bool)
	Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (admission.Object, error)
	List(ctx context.Context, kind schema.GroupVersionKind, namespace string) ([]admission.Object, error)
}

// Namespaces finds namespaces and their labels. A missing one is an apierrors
// NotFound.
type Namespaces interface {
	match.Namespaces
	expr.Namespaces
}

// Validating makes the plugin that checks writes against
// ValidatingAdmissionPolicies.
func Validating(d Deps) admission.Plugin {
	v := &validating{Deps: d, policies: newApplying(d.Manifests[ValidatingName], Source{d.ValidatingPolicies, d.ValidatingBindings}, d.validatingPolicy, validatingBinding)}
	return admission.Plugin{Name: ValidatingName, Validator: admission.Func(v.validate)}
}

// Mutating makes the plugin that lets MutatingAdmissionPolicies change writes.
func Mutating(d Deps) admission.Plugin {
	m := &mutating{Deps: d, policies: newApplying(d.Manifests[MutatingName], Source{d.MutatingPolicies, d.MutatingBindings}, d.mutatingPolicy, mutatingBinding)}
	return admission.Plugin{Name: MutatingName, Mutator: admission.Func(m.admit)}
}
