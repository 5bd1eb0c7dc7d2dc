// Package v1 has the webhooks of Sites.
package v1

import (
	"context"
	"errors"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	webv1 "example.com/sites/api/v1"
)

// SetupSiteWebhookWithManager registers the webhook for Site in the manager.
func SetupSiteWebhookWithManager(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &webv1.Site{}).WithValidator(&SiteCustomValidator{}).WithDefaulter(&SiteCustomDefaulter{DefaultTheme: "plain"}).Complete()
}

// +kubebuilder:webhook:path=/mutate-web-example-com-v1-site,mutating=true,failurePolicy=fail,sideEffects=None,groups=web.example.com,resources=sites,verbs=create;update,versions=v1,name=mutate-v1.kb.io,admissionReviewVersions=v1

// SiteCustomDefaulter sets default values on a Site.
type SiteCustomDefaulter struct{ DefaultTheme string }

// Default is part of admission.Defaulter.
func (d *SiteCustomDefaulter) Default(_ context.Context, site *webv1.Site) error {
	if site.Spec.Theme == "" {
		site.Spec.Theme = d.DefaultTheme
	}
	return nil
}

// +kubebuilder:webhook:path=/validate-web-example-com-v1-site,mutating=false,failurePolicy=fail,sideEffects=None,groups=web.example.com,resources=sites,verbs=create;update,versions=v1,name=validate-v1.kb.io,admissionReviewVersions=v1

// SiteCustomValidator validates a Site.
type SiteCustomValidator struct{}

// ValidateCreate is part of admission.Validator.
func (v *SiteCustomValidator) ValidateCreate(_ context.Context, site *webv1.Site) (admission.Warnings, error) {
	if site.Spec.Title == "Lorem ipsum" {
		return nil, errors.New("write something of your own")
	}
	return nil, nil
}

// ValidateUpdate is part of admission.Validator.
func (v *SiteCustomValidator) ValidateUpdate(ctx context.Context, _, site *webv1.Site) (admission.Warnings, error) {
	return v.ValidateCreate(ctx, site)
}

// ValidateDelete is part of admission.Validator.
func (v *SiteCustomValidator) ValidateDelete(context.Context, *webv1.Site) (admission.Warnings, error) {
	return nil, nil
}
