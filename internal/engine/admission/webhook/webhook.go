package webhook

import (
	"log/slog"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/expr"
	"github.com/kanzen-io/kanzen/internal/engine/admission/match"
	"github.com/kanzen-io/kanzen/internal/engine/admission/measure"
	"github.com/kanzen-io/kanzen/internal/object/cel"
)

// The names of the plugins.
const (
	MutatingName   = "MutatingAdmissionWebhook"
	ValidatingName = "ValidatingAdmissionWebhook"
)

// Deps are the dependencies of the plugins. All fields are required except where noted.
type Deps struct {
	// Mutating and Validating are the stored configurations.
	Mutating, Validating admission.View
	// Manifests has the configurations of manifests, by the name of the plugin. Optional.
	Manifests  map[string]admission.View
	Namespaces Namespaces
	Authorizer authz.Authorizer
	Compiler   *cel.Compiler
	Metrics    *measure.Metrics
	// Clients connect to webhooks.
	Clients *Clients
	NewUID  func() types.UID
	Clock   clock.PassiveClock
	Log     *slog.Logger
	// Guardrails are optional.
	Guardrails *Guardrails
	// NotReviews has no webhook called for reviews of who somebody is or what they may do.
	NotReviews bool
	// Rehearsal has webhooks called as for dry runs, also for writes that are stored: nothing outside may come of them.
	Rehearsal bool

	trouble *Trouble // made with the plugin
}

// Namespaces finds namespaces and their labels. A missing one is an apierrors
// NotFound.
type Namespaces interface {
	match.Namespaces
	expr.Namespaces
}

// Mutating makes the plugin that calls mutating webhooks.
func Mutating(d Deps) admission.Plugin {
	d.trouble = NewTrouble("a webhook", d.Log, d.Clock)
	m := &mutating{Deps: d, hooks: newApplying(&d, d.Manifests[MutatingName], d.Mutating, mutatingHooks)}
	return admission.Plugin{Name: MutatingName, Mutator: admission.Func(m.admit)}
}

// Validating makes the plugin that calls validating webhooks.
func Validating(d Deps) admission.Plugin {
	d.trouble = NewTrouble("a webhook", d.Log, d.Clock)
	v := &validating{Deps: d, hooks: newApplying(&d, d.Manifests[ValidatingName], d.Validating, validatingHooks)}
	return admission.Plugin{Name: ValidatingName, Validator: admission.Func(v.validate)}
}
