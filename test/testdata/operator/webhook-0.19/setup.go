package webhook

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	webv1 "example.com/sites/api/v1"
)

// Setup registers the webhooks of Sites in a manager: with controller-runtime before 0.23.
func Setup(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr).For(&webv1.Site{}).WithValidator(untyped{}).WithDefaulter(untyped{}).Complete()
}

type untyped struct{}

func (untyped) Default(_ context.Context, o runtime.Object) error {
	setDefaults(o.(*webv1.Site))
	return nil
}

func (untyped) ValidateCreate(_ context.Context, o runtime.Object) (admission.Warnings, error) {
	return nil, validate(o.(*webv1.Site))
}

func (untyped) ValidateUpdate(_ context.Context, _, o runtime.Object) (admission.Warnings, error) {
	return nil, validate(o.(*webv1.Site))
}

func (untyped) ValidateDelete(context.Context, runtime.Object) (admission.Warnings, error) {
	return nil, nil
}
