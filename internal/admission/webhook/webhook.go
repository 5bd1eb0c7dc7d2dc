package webhook

import (
	"context"
	"log/slog"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/admission"
	"github.com/kanzen-io/kanzen/internal/admission/expr"
	"github.com/kanzen-io/kanzen/internal/admission/match"
	"github.com/kanzen-io/kanzen/internal/admission/measure"
	"github.com/kanzen-io/kanzen/internal/authz"
	"github.com/kanzen-io/kanzen/internal/cel"
)

// The names of the plugins.
const (
	MutatingName   = "MutatingAdmissionWebhook"
	ValidatingName = "ValidatingAdmissionWebhook"
)

// Deps is what the plugins work with. All fields are needed.
type Deps struct {
	// Mutating and Validating are the stored configurations.
	Mutating, Validating View
	Namespaces           Namespaces
	Authorizer           authz.Authorizer
	Compiler             *cel.Compiler
	Metrics              *measure.Metrics
	// Clients connect to webhooks.
	Clients *Clients
	NewUID  func() types.UID
	Clock   clock.PassiveClock
	Log     *slog.Logger
}

// View is the stored configurations of one kind.
type View interface {
	// Changed is a number that stays the same while they do.
	Changed(ctx context.Context) (int64, error)
	// Objects returns them in the order of their names.
	Objects(ctx context.Context) ([]admission.Object, error)
}

// Namespaces finds namespaces and their labels. A missing one is an apierrors
// NotFound.
type Namespaces interface {
	match.Namespaces
	expr.Namespaces
}

// Mutating is the plugin that asks mutating webhooks.
func Mutating(d Deps) admission.Plugin {
	m := &mutating{Deps: d, hooks: hooks{view: d.Mutating, make: mutatingHooks, deps: &d}}
	return admission.Plugin{Name: MutatingName, Mutator: admission.Func(m.admit)}
}

// Validating is the plugin that asks validating webhooks.
func Validating(d Deps) admission.Plugin {
	v := &validating{Deps: d, hooks: hooks{view: d.Validating, make: validatingHooks, deps: &d}}
	return admission.Plugin{Name: ValidatingName, Validator: admission.Func(v.validate)}
}
