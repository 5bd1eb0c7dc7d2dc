// Package storageprotection adds finalizers to volumes, claims and volume
// attributes classes, and to groups of pods, so that none is removed while it is in use.
package storageprotection

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// Names of the plugins in --enable-admission-plugins.
const (
	Name         = "StorageObjectInUseProtection"
	PodGroupName = "PodGroupProtection"
)

var finalizers = map[schema.GroupResource]string{
	admission.PersistentVolumes:       "kubernetes.io/pv-protection",
	admission.PersistentVolumeClaims:  "kubernetes.io/pvc-protection",
	admission.VolumeAttributesClasses: "kubernetes.io/vac-protection",
	admission.PodGroups:               "scheduling.k8s.io/podgroup-protection",
}

// New makes the plugin of storage.
func New() admission.Plugin {
	return plugin(Name, admission.PersistentVolumes, admission.PersistentVolumeClaims, admission.VolumeAttributesClasses)
}

// PodGroups makes the plugin of groups of pods.
func PodGroups() admission.Plugin { return plugin(PodGroupName, admission.PodGroups) }

func plugin(name string, of ...schema.GroupResource) admission.Plugin {
	return admission.Plugin{Name: name, Mutator: admission.Func(admit), On: []admission.Operation{admission.Create}, Of: of}
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
