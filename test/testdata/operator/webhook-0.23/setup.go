package webhook

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	webv1 "example.com/sites/api/v1"
)

// Setup registers the webhooks of Sites in a manager: with controller-runtime from 0.23 on.
func Setup(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &webv1.Site{}).WithValidator(typed{}).WithDefaulter(typed{}).Complete()
}

type typed struct{}

func (typed) Default(_ context.Context, o *webv1.Site) error {
	setDefaults(o)
	return nil
}

func (typed) ValidateCreate(_ context.Context, o *webv1.Site) (admission.Warnings, error) {
	return nil, validate(o)
}

func (typed) ValidateUpdate(_ context.Context, _, o *webv1.Site) (admission.Warnings, error) {
	return nil, validate(o)
}

func (typed) ValidateDelete(context.Context, *webv1.Site) (admission.Warnings, error) {
	return nil, nil
}
