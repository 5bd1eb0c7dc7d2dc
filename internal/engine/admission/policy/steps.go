package policy

import (
	"context"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/request"
)

// modeAnnotation on a policy or its binding with the value "shadow" has it evaluated without
// consequence: what it would have refused or changed is in the flight recorder. (The same annotation serves webhooks.)
const modeAnnotation = "admission.kanzen.io/mode"

func shadowed(obj admission.Object) bool { return obj.GetAnnotations()[modeAnnotation] == "shadow" }

// outcome is what a policy has decided on a write, for the flight recorder.
type outcome struct{ refused, failed, shadow bool }

// add takes up the decision of a validation that is to be acted on by a binding.
func (o *outcome) add(b *binding, d *decision) {
	if !d.admit && slices.Contains(b.actions, admissionv1.Deny) {
		o.refused = true
		o.shadow = o.shadow || b.shadow
	}
}

// noted reports the evaluation of a policy.
func (o *outcome) noted(ctx context.Context, p *bound, began time.Time) {
	s := request.Step{Kind: request.StepPolicy, Name: p.name, Phase: "validate", Began: began, Took: time.Since(began), Result: request.StepAllowed}
	switch {
	case o.failed:
		s.Result, s.Ignored = request.StepFailed, p.ignore || p.shadow
	case o.refused:
		s.Result, s.Ignored = request.StepRefused, o.shadow || p.shadow
	}
	request.AddStep(ctx, s)
}

// noteMutation reports the evaluation of a mutating policy for a binding.
func noteMutation(ctx context.Context, in *invocation, began time.Time, changed, failed bool) {
	s := request.Step{Kind: request.StepPolicy, Name: in.policy.name + "/" + in.binding.name, Phase: "admit", Began: began, Took: time.Since(began),
		Result: request.StepAllowed, Changed: changed}
	if failed {
		s.Result, s.Ignored = request.StepFailed, in.policy.ignore
	}
	s.Ignored = s.Ignored || in.shadowed()
	request.AddStep(ctx, s)
}

// shadowed says that the invocation has no consequence.
func (i *invocation) shadowed() bool { return i.policy.shadow || i.binding.shadow }
