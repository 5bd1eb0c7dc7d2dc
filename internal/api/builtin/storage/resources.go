// Package storage is the API group storage.k8s.io/v1: classes of volumes and of their attributes, attachments, and what
// CSI drivers publish about themselves, nodes and capacity.
package storage

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

var v1 = storagev1.SchemeGroupVersion

// Deps is what this group needs from the rest of the server.
type Deps struct {
	// Gates says which features are on.
	Gates features.Set
}

// Resources returns every resource of the group.
func Resources(d Deps) []*engine.Resource {
	return engine.Kinds(
		csiDrivers(d),
		csiNodes(),
		csiStorageCapacities(),
		storageClasses(),
		volumeAttachments(),
		volumeAttributesClasses(),
	)
}

func storageClasses() *engine.Resource {
	return &engine.Resource{
		Plural: "storageclasses", Kind: "StorageClass",
		ReturnDeleted: true,
		ShortNames:    []string{"sc"},
		Versions:      []*engine.Version{engine.VersionOf[storagev1.StorageClass, storagev1.StorageClassList](v1, defaultStorageClass)},
		Rules: engine.Typed[*storagev1.StorageClass]{
			Validate:       validateStorageClass,
			ValidateUpdate: validateStorageClassUpdate,
			Warn:           warnStorageClass,
		}.Rules(),
		Table: storageClassTable(),
	}
}

func defaultStorageClass(c *storagev1.StorageClass) {
	rules.DefaultPtr(&c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
	rules.DefaultPtr(&c.VolumeBindingMode, storagev1.VolumeBindingImmediate)
}

func volumeAttributesClasses() *engine.Resource {
	return &engine.Resource{
		Plural: "volumeattributesclasses", Kind: "VolumeAttributesClass",
		ReturnDeleted: true,
		ShortNames:    []string{"vac"},
		Versions: engine.Renamed(engine.VersionOf[storagev1.VolumeAttributesClass, storagev1.VolumeAttributesClassList](v1, nil),
			engine.VersionOf[storagev1beta1.VolumeAttributesClass, storagev1beta1.VolumeAttributesClassList](storagev1beta1.SchemeGroupVersion, nil),
		),
		Rules: engine.Typed[*storagev1.VolumeAttributesClass]{
			Validate:       validateVolumeAttributesClass,
			ValidateUpdate: validateVolumeAttributesClassUpdate,
		}.Rules(),
		Table: volumeAttributesClassTable(),
	}
}

func volumeAttachments() *engine.Resource {
	return &engine.Resource{
		Plural: "volumeattachments", Kind: "VolumeAttachment",
		ReturnDeleted: true,
		Versions:      []*engine.Version{engine.VersionOf[storagev1.VolumeAttachment, storagev1.VolumeAttachmentList](v1, defaultVolumeAttachment)},
		Rules: engine.Typed[*storagev1.VolumeAttachment]{
			StatusApart:          true,
			Validate:             validateVolumeAttachment,
			ValidateUpdate:       validateVolumeAttachmentUpdate,
			NeedsResourceVersion: true,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.LoneStatus(engine.Typed[*storagev1.VolumeAttachment]{
			ValidateUpdate:       validateVolumeAttachmentUpdate,
			NeedsResourceVersion: true,
		})},
		Table: volumeAttachmentTable(),
	}
}

func csiNodes() *engine.Resource {
	return &engine.Resource{
		Plural: "csinodes", Kind: "CSINode",
		ReturnDeleted: true,
		Versions:      []*engine.Version{engine.VersionOf[storagev1.CSINode, storagev1.CSINodeList](v1, nil)},
		Rules: engine.Typed[*storagev1.CSINode]{
			StatusApart:          true,
			Validate:             validateCSINode,
			ValidateUpdate:       validateCSINodeUpdate,
			NeedsResourceVersion: true,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.LoneStatus(engine.Typed[*storagev1.CSINode]{
			ValidateUpdate:       validateCSINodeStatus,
			NeedsResourceVersion: true,
		})},
		Table: csiNodeTable(),
	}
}

func csiStorageCapacities() *engine.Resource {
	return &engine.Resource{
		Plural: "csistoragecapacities", Kind: "CSIStorageCapacity",
		Namespaced: true,
		Versions:   []*engine.Version{engine.VersionOf[storagev1.CSIStorageCapacity, storagev1.CSIStorageCapacityList](v1, nil)},
		Rules: engine.Typed[*storagev1.CSIStorageCapacity]{
			Validate:             validateCSIStorageCapacity,
			ValidateUpdate:       validateCSIStorageCapacityUpdate,
			Warn:                 warnCSIStorageCapacity,
			NeedsResourceVersion: true,
		}.Rules(),
	}
}

func csiDrivers(d Deps) *engine.Resource {
	return &engine.Resource{
		Plural: "csidrivers", Kind: "CSIDriver",
		ReturnDeleted: true,
		Versions:      []*engine.Version{engine.VersionOf[storagev1.CSIDriver, storagev1.CSIDriverList](v1, d.defaultCSIDriver)},
		Rules: engine.Typed[*storagev1.CSIDriver]{
			PrepareUpdate: func(_ context.Context, d, old *storagev1.CSIDriver) {
				rules.RaiseGeneration(&d.ObjectMeta, &old.ObjectMeta, &d.Spec, &old.Spec)
			},
			Validate:             validateCSIDriver,
			ValidateUpdate:       validateCSIDriverUpdate,
			Warn:                 warnCSIDriver,
			NeedsResourceVersion: true,
		}.Rules(),
		Table: csiDriverTable(),
	}
}

func (d Deps) defaultCSIDriver(driver *storagev1.CSIDriver) {
	s := &driver.Spec
	rules.DefaultPtr(&s.AttachRequired, true)
	rules.DefaultPtr(&s.PodInfoOnMount, false)
	rules.DefaultPtr(&s.StorageCapacity, false)
	rules.DefaultPtr(&s.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	if len(s.VolumeLifecycleModes) == 0 {
		s.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
	rules.DefaultPtr(&s.RequiresRepublish, false)
	rules.DefaultPtr(&s.SELinuxMount, false)
	if d.Gates.Enabled(features.VolumeLimitScaling) {
		rules.DefaultPtr(&s.PreventPodSchedulingIfMissing, false)
	}
}

func warnCSIDriver(_ context.Context, d, old *storagev1.CSIDriver) []string {
	s := &d.Spec
	if len(s.TokenRequests) == 0 || s.ServiceAccountTokenInSecrets != nil ||
		old != nil && apiequality.Semantic.DeepEqual(s.TokenRequests, old.Spec.TokenRequests) {
		return nil
	}
	return []string{"spec.serviceAccountTokenInSecrets is not set; true keeps tokens out of logs of volume attributes"}
}

// defaultVolumeAttachment sets the defaults of an inline volume.
func defaultVolumeAttachment(a *storagev1.VolumeAttachment) {
	s := a.Spec.Source.InlineVolumeSpec
	if s == nil {
		return
	}
	rules.DefaultResources(s.Capacity)
	rules.DefaultPersistentVolumeSource(&s.PersistentVolumeSource)
}

func warnStorageClass(_ context.Context, c, _ *storagev1.StorageClass) []string {
	var out []string
	for i, t := range c.AllowedTopologies {
		for k, expression := range t.MatchLabelExpressions {
			if text := rules.DeprecatedNodeLabel(expression.Key); text != "" {
				path := field.NewPath("allowedTopologies").Index(i).Child("matchLabelExpressions").Index(k).Child("key")
				out = append(out, path.String()+": "+text)
			}
		}
	}
	return out
}

func warnCSIStorageCapacity(_ context.Context, c, _ *storagev1.CSIStorageCapacity) []string {
	if c.NodeTopology == nil {
		return nil
	}
	var out []string
	path := field.NewPath("nodeTopology")
	for i, expression := range c.NodeTopology.MatchExpressions {
		if text := rules.DeprecatedNodeLabel(expression.Key); text != "" {
			out = append(out, path.Child("matchExpressions").Index(i).Child("key").String()+": "+text)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.NodeTopology.MatchLabels)) {
		if text := rules.DeprecatedNodeLabel(key); text != "" {
			out = append(out, path.Child("matchLabels").Child(key).String()+": "+text)
		}
	}
	return out
}
