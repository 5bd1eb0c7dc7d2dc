// Package denyexternalips refuses new external IPs of services: a user who can
// set any address can redirect its traffic.
package denyexternalips

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// Name of the plugin in --enable-admission-plugins.
const Name = "DenyServiceExternalIPs"

// New makes the plugin.
func New() admission.Plugin {
	return admission.Plugin{
		Name: Name, Validator: admission.Func(validate),
		On: []admission.Operation{admission.Create, admission.Update}, Of: []schema.GroupResource{admission.Services},
	}
}

func validate(_ context.Context, a *admission.Attributes) error {
	if a.Subresource != "" {
		return nil
	}
	svc, ok := a.Object.(*corev1.Service)
	if !ok {
		return apierrors.NewInternalError(fmt.Errorf("expected a Service and got a %T", a.Object))
	}
	var had []string
	if old, ok := a.OldObject.(*corev1.Service); ok {
		had = old.Spec.ExternalIPs
	}
	for _, ip := range svc.Spec.ExternalIPs {
		if !slices.Contains(had, ip) {
			return admission.Forbiddenf(a, "use of external IPs is denied by admission control")
		}
	}
	return nil
}
