// Package pvcresize lets claims grow only if their storage class allows it.
package pvcresize

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/defaultclass"
)

// Name of the plugin in --enable-admission-plugins.
const Name = "PersistentVolumeClaimResize"

type plugin struct {
	objects admission.Objects
}

// New makes the plugin.
func New(objects admission.Objects) admission.Plugin {
	return admission.Plugin{
		Name: Name, Validator: &plugin{objects},
		On: []admission.Operation{admission.Update}, Of: []schema.GroupResource{admission.PersistentVolumeClaims},
	}
}

func (p *plugin) Validate(ctx context.Context, a *admission.Attributes) error {
	claim, ok := a.Object.(*corev1.PersistentVolumeClaim)
	old, okOld := a.OldObject.(*corev1.PersistentVolumeClaim)
	if !ok || !okOld || a.Subresource != "" {
		return nil
	}
	if claim.Spec.Resources.Requests.Storage().Cmp(*old.Spec.Resources.Requests.Storage()) <= 0 {
		return nil
	}
	if old.Status.Phase != corev1.ClaimBound {
		return admission.Forbiddenf(a, "only bound persistent volume claims can be expanded")
	}
	if !p.mayGrow(ctx, claim, old) {
		return admission.Forbiddenf(a, "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize")
	}
	return nil
}

func (p *plugin) mayGrow(ctx context.Context, claim, old *corev1.PersistentVolumeClaim) bool {
	name := defaultclass.Of(claim)
	if name == "" || name != defaultclass.Of(old) {
		return false
	}
	class, err := admission.Seen[*storagev1.StorageClass](ctx, p.objects, admission.StorageClasses, "", name)
	return err == nil && class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion
}
