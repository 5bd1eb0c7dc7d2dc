package storage

import (
	"context"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

const (
	maxParameters     = 512
	maxParametersSize = 256 << 10
)

func validateStorageClass(_ context.Context, c *storagev1.StorageClass) field.ErrorList {
	e := rules.At(nil)
	e.Add(rules.ObjectMeta(&c.ObjectMeta, false, rules.Subdomain))
	provisioner("provisioner", c.Provisioner, e)
	parameters(c.Parameters, e.Field("parameters"))
	if p := c.ReclaimPolicy; p != nil && *p != "" {
		rules.OneOf(e, "reclaimPolicy", *p, []corev1.PersistentVolumeReclaimPolicy{
			corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain,
		})
	}
	if m := c.VolumeBindingMode; m == nil {
		e.Field("volumeBindingMode").Required("")
	} else {
		rules.OneOf(e, "volumeBindingMode", *m, []storagev1.VolumeBindingMode{
			storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer,
		})
	}
	allowedTopologies(c.AllowedTopologies, e)
	return e.List()
}

func validateStorageClassUpdate(ctx context.Context, c, old *storagev1.StorageClass) field.ErrorList {
	e := rules.At(nil)
	e.Add(validateStorageClass(ctx, c))
	e.Add(rules.ObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta))
	e.Fixed("parameters", c.Parameters, old.Parameters)
	e.Fixed("provisioner", c.Provisioner, old.Provisioner)
	e.Fixed("reclaimPolicy", c.ReclaimPolicy, old.ReclaimPolicy)
	e.Fixed("volumeBindingMode", c.VolumeBindingMode, old.VolumeBindingMode)
	return e.List()
}

// provisioner validates the name of a provisioner. Upper case is allowed, because the first ones had it.
func provisioner(name, value string, e rules.Errors) {
	if e.Present(name, value) {
		e.Field(name).QualifiedName(strings.ToLower(value))
	}
}

func parameters(params map[string]string, e rules.Errors) {
	if len(params) > maxParameters {
		e.TooLong(maxParameters)
		return
	}
	size := 0
	for k, v := range params {
		if k == "" {
			e.Invalid(k, "field can not be empty.")
		}
		size += len(k) + len(v)
	}
	if size > maxParametersSize {
		e.TooLong(maxParametersSize)
	}
}

func allowedTopologies(terms []corev1.TopologySelectorTerm, e rules.Errors) {
	if len(terms) == 0 {
		return
	}
	// A term that matches everything duplicates a missing one.
	seen := []map[string]map[string]bool{{}}
	for i := range terms {
		at := e.Field("allowedTopologies").Item(i)
		values := map[string]map[string]bool{}
		for key, list := range rules.TopologySelectorTerm(&terms[i], at) {
			values[key] = map[string]bool{}
			for _, v := range list {
				values[key][v] = true
			}
		}
		for _, s := range seen {
			if reflect.DeepEqual(s, values) {
				at.Field("matchLabelExpressions").Duplicate("")
			}
		}
		seen = append(seen, values)
	}
}

func validateVolumeAttributesClass(_ context.Context, c *storagev1.VolumeAttributesClass) field.ErrorList {
	e := rules.At(nil)
	e.Add(rules.ObjectMeta(&c.ObjectMeta, false, rules.Subdomain))
	provisioner("driverName", c.DriverName, e)
	parameters(c.Parameters, e.Field("parameters"))
	if len(c.Parameters) == 0 {
		e.Field("parameters").Required("must contain at least one key/value pair")
	}
	return e.List()
}

func validateVolumeAttributesClassUpdate(ctx context.Context, c, old *storagev1.VolumeAttributesClass) field.ErrorList {
	e := rules.At(nil)
	e.Add(rules.ObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta))
	if c.DriverName != old.DriverName {
		e.Field("driverName").Forbidden("updates to driverName are forbidden.")
	}
	if !reflect.DeepEqual(c.Parameters, old.Parameters) {
		e.Field("parameters").Forbidden("updates to parameters are forbidden.")
	}
	e.Add(validateVolumeAttributesClass(ctx, c))
	return e.List()
}

func validateVolumeAttachment(_ context.Context, a *storagev1.VolumeAttachment) field.ErrorList {
	e := rules.At(field.NewPath("spec"))
	e.Add(rules.ObjectMeta(&a.ObjectMeta, false, rules.Subdomain))
	e.CSIDriverName("attacher", a.Spec.Attacher)
	source := e.Field("source")
	switch volume, inline := a.Spec.Source.PersistentVolumeName, a.Spec.Source.InlineVolumeSpec; {
	case inline == nil && volume == nil:
		source.Required("must specify exactly one of inlineVolumeSpec and persistentVolumeName")
	case inline != nil && volume != nil:
		source.Forbidden("must specify exactly one of inlineVolumeSpec and persistentVolumeName")
	case volume != nil:
		source.Present("persistentVolumeName", *volume)
	default:
		e.Add(rules.InlineVolumeSpec(inline, "", source.Path().Child("inlineVolumeSpec")))
	}
	if name := a.Spec.Source.PersistentVolumeName; name != nil {
		e.Elsewhere(field.NewPath("spec.source")).Name("persistentVolumeName", *name, rules.Subdomain)
	}
	e.Name("nodeName", a.Spec.NodeName, rules.Subdomain)
	volumeAttachmentStatus(&a.Status, e.Elsewhere(field.NewPath("status")))
	return e.List()
}

func volumeAttachmentStatus(s *storagev1.VolumeAttachmentStatus, e rules.Errors) {
	size := 0
	for k, v := range s.AttachmentMetadata {
		size += len(k) + len(v)
	}
	if size > maxParametersSize {
		e.Field("attachmentMetadata").TooLong(maxParametersSize)
	}
	failure := func(v *storagev1.VolumeError, e rules.Errors) {
		if v == nil {
			return
		}
		if len(v.Message) > 1024 {
			e.Field("message").TooLong(1024)
		}
		rules.NonnegativePtr(e, "errorCode", v.ErrorCode)
	}
	failure(s.AttachError, e.Field("attachError"))
	failure(s.DetachError, e.Field("detachError"))
}

// validateVolumeAttachmentUpdate also validates updates of the status.
func validateVolumeAttachmentUpdate(ctx context.Context, a, old *storagev1.VolumeAttachment) field.ErrorList {
	e := rules.At(nil)
	e.Add(rules.ObjectMetaUpdate(&a.ObjectMeta, &old.ObjectMeta))
	e.Add(validateVolumeAttachment(ctx, a))
	e.Fixed("spec", a.Spec, old.Spec)
	return e.List()
}

func validateCSIStorageCapacity(_ context.Context, c *storagev1.CSIStorageCapacity) field.ErrorList {
	return csiStorageCapacity(c, false)
}

func csiStorageCapacity(c *storagev1.CSIStorageCapacity, allowInvalidSelector bool) field.ErrorList {
	e := rules.At(nil)
	e.Add(rules.ObjectMeta(&c.ObjectMeta, true, rules.Subdomain))
	e.LabelSelector("nodeTopology", c.NodeTopology, allowInvalidSelector)
	e.Name("storageClassName", c.StorageClassName, rules.Subdomain)
	if q := c.Capacity; q != nil && q.Sign() < 0 {
		e.Field("capacity").Invalid(q.String(), "must be greater than or equal to 0")
	}
	return e.List()
}

func validateCSIStorageCapacityUpdate(_ context.Context, c, old *storagev1.CSIStorageCapacity) field.ErrorList {
	e := rules.At(nil)
	e.Add(csiStorageCapacity(c, rules.InvalidLabelSelector(old.NodeTopology)))
	e.Add(rules.ObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta))
	if !apiequality.Semantic.DeepEqual(c.NodeTopology, old.NodeTopology) {
		e.Field("nodeTopology").Invalid(c.NodeTopology, "field is immutable")
	}
	e.Unchanged("storageClassName", c.StorageClassName, old.StorageClassName)
	return e.List()
}

const maxStorageHealthConditions = 16

func validateCSINodeStatus(_ context.Context, n, old *storagev1.CSINode) field.ErrorList {
	e := rules.At(field.NewPath("status", "storageHealth"))
	e.Add(rules.ObjectMetaUpdate(&n.ObjectMeta, &old.ObjectMeta))
	seen := map[string]bool{}
	for i := range n.Status.StorageHealth {
		health, at := &n.Status.StorageHealth[i], e.Item(i)
		if seen[health.Name] {
			at.Duplicate(health.Name)
		}
		seen[health.Name] = true
		storageHealth(health, at)
	}
	return e.List()
}

// storageHealth validates what a driver says of its storage, as it is seen from a node.
func storageHealth(h *storagev1.StorageHealth, e rules.Errors) {
	if e.Present("name", h.Name) {
		e.CSIDriverName("name", h.Name)
	}
	list := e.Field("healthConditions")
	if len(h.HealthConditions) > maxStorageHealthConditions {
		list.AddError(field.TooMany(list.Path(), len(h.HealthConditions), maxStorageHealthConditions))
		return
	}
	for i := range h.HealthConditions {
		c, at := &h.HealthConditions[i], list.Item(i)
		rules.OneOf(at, "status", c.Status, []storagev1.StorageHealthStatusType{storagev1.StorageDegraded, storagev1.StorageUnreachable})
		if at.Present("reason", c.Reason) {
			reason := at.Field("reason")
			reason.Messages(c.Reason, metav1validation.IsValidConditionReason(c.Reason))
			if len(c.Reason) > 256 {
				reason.TooLong(256)
			}
		}
		if len(c.Message) > 1024 {
			at.Field("message").TooLong(1024)
		}
		if c.AccessMode != nil {
			rules.OneOf(at, "accessMode", *c.AccessMode, []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod})
		}
		if c.VolumeMode != nil {
			rules.OneOf(at, "volumeMode", *c.VolumeMode, []corev1.PersistentVolumeMode{corev1.PersistentVolumeFilesystem, corev1.PersistentVolumeBlock})
		}
	}
}
