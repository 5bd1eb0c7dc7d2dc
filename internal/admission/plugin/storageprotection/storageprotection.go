// Package storageprotection adds finalizers to volumes, claims and volume
// attributes classes, so that none is removed while it is in use.
package storageprotection

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/admission"
)

// Name of the plugin in --enable-admission-plugins.
const Name = "StorageObjectInUseProtection"

var finalizers = map[schema.GroupResource]string{
	admission.PersistentVolumes:       "kubernetes.io/pv-protection",
	admission.PersistentVolumeClaims:  "kubernetes.io/pvc-protection",
	admission.VolumeAttributesClasses: "kubernetes.io/vac-protection",
}

// New makes the plugin.
func New() admission.Plugin {
	return admission.Plugin{
		Name: Name, Mutator: admission.Func(admit), On: []admission.Operation{admission.Create},
		Of: []schema.GroupResource{admission.PersistentVolumes, admission.PersistentVolumeClaims, admission.VolumeAttributesClasses},
	}
}

func admit(_ context.Context, a *admission.Attributes) error {
	obj, ok := a.Object.(admission.Object)
	if !ok || a.Subresource != "" {
		return nil
	}
	finalizer := finalizers[a.Resource.GroupResource()]
	if have := obj.GetFinalizers(); !slices.Contains(have, finalizer) {
		obj.SetFinalizers(append(have[:len(have):len(have)], finalizer))
	}
	return nil
}
