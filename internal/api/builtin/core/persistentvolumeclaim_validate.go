package core

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func validateClaim(c *corev1.PersistentVolumeClaim, o rules.ClaimOptions) field.ErrorList {
	e := rules.At(nil)
	e.Add(rules.ObjectMeta(&c.ObjectMeta, true, rules.Subdomain))
	rules.ClaimSpec(&c.Spec, e.Field("spec"), o)
	return e.List()
}

func validateClaimUpdate(_ context.Context, c, old *corev1.PersistentVolumeClaim) field.ErrorList {
	// Claims from older servers have only one of the two data source fields.
	oldSpec := old.Spec.DeepCopy()
	mirrorDataSource(oldSpec)

	e := rules.At(nil)
	e.Add(rules.ObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta))
	e.Add(validateClaim(c, rules.ClaimOptions{
		AllowInvalidSelector: rules.InvalidLabelSelector(oldSpec.Selector),
		AllowInvalidAPIGroup: oldSpec.DataSource != nil && oldSpec.DataSource.APIGroup != nil ||
			oldSpec.DataSourceRef != nil && oldSpec.DataSourceRef.APIGroup != nil,
	}))
	upgraded := classFromAnnotation(c, old)
	if !upgraded {
		e.Add(rules.Immutable(c.Annotations[corev1.BetaStorageClassAnnotation], old.Annotations[corev1.BetaStorageClassAnnotation],
			field.NewPath("metadata", "annotations", corev1.BetaStorageClassAnnotation)))
	}
	if kept := changeableClaim(c, old, oldSpec, upgraded); !apiequality.Semantic.DeepEqual(kept, oldSpec) {
		e.Field("spec").Forbidden("spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n" +
			diff.Diff(oldSpec, kept))
	}
	claimSize(c, old, e.Field("spec").Field("resources").Field("requests").Field("storage"))
	e.Add(rules.Immutable(c.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode")))
	if old.Status.CurrentVolumeAttributesClassName != nil {
		class := c.Spec.VolumeAttributesClassName
		if !apiequality.Semantic.DeepEqual(class, old.Spec.VolumeAttributesClassName) && (class == nil || *class == "") {
			e.Field("spec").Field("volumeAttributesClassName").Forbidden("update to nil is forbidden when status.currentVolumeAttributesClassName is not nil")
		}
	}
	return e.List()
}

// classFromAnnotation reports whether an update moves the storage class from the annotation of old to the field.
func classFromAnnotation(c, old *corev1.PersistentVolumeClaim) bool {
	class, found := old.Annotations[corev1.BetaStorageClassAnnotation]
	kept, keeps := c.Annotations[corev1.BetaStorageClassAnnotation]
	asked := c.Spec.StorageClassName
	return found && old.Spec.StorageClassName == nil && asked != nil && *asked == class && (!keeps || kept == class)
}

// changeableClaim returns the spec of c with its mutable fields reset to old, so that all remaining differences are
// errors.
func changeableClaim(c, old *corev1.PersistentVolumeClaim, oldSpec *corev1.PersistentVolumeClaimSpec, upgraded bool) *corev1.PersistentVolumeClaimSpec {
	spec := c.Spec.DeepCopy()
	if oldSpec.VolumeName == "" {
		spec.VolumeName = "" // binding sets it, once
	}
	if upgraded {
		spec.StorageClassName = nil
	} else if spec.StorageClassName != nil && oldSpec.StorageClassName == nil {
		// The class may be set later, by a default class that is created later.
		annotation, found := old.Annotations[corev1.BetaStorageClassAnnotation]
		if !found || *spec.StorageClassName == annotation {
			spec.StorageClassName = nil
		}
	}
	if c.Status.Phase == corev1.ClaimBound {
		if spec.Resources.Requests != nil {
			spec.Resources.Requests[corev1.ResourceStorage] = oldSpec.Resources.Requests[corev1.ResourceStorage]
		}
		spec.VolumeAttributesClassName = oldSpec.VolumeAttributesClassName
	}
	return spec
}

// claimSize allows a claim to shrink only after an expansion that did not happen, and only to more than its capacity.
func claimSize(c, old *corev1.PersistentVolumeClaim, e rules.Errors) {
	asked, before := c.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	if has := old.Status.Capacity[corev1.ResourceStorage]; asked.Cmp(before) < 0 && asked.Cmp(has) <= 0 {
		e.Forbidden("field can not be less than status.capacity")
	}
}

var resizeStates = []corev1.ClaimResourceStatus{
	corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimControllerResizeInfeasible,
	corev1.PersistentVolumeClaimNodeResizePending, corev1.PersistentVolumeClaimNodeResizeInProgress,
	corev1.PersistentVolumeClaimNodeResizeInfeasible,
}

func validateClaimStatus(_ context.Context, c, old *corev1.PersistentVolumeClaim) field.ErrorList {
	e := rules.At(nil)
	e.Add(rules.ObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta))
	e.Add(rules.NeedsResourceVersion(&c.ObjectMeta))
	if len(c.Spec.AccessModes) == 0 {
		e.Field("Spec").Field("accessModes").Required("")
	}
	status := e.Field("status")
	for name, q := range c.Status.Capacity {
		if q.Sign() < 0 {
			status.Field("capacity").Key(string(name)).Invalid(q.String(), "must not be negative")
		}
	}
	if h := c.Status.HealthStatus; h != nil {
		healthConditions(h.HealthConditions, status.Field("healthStatus").Field("healthConditions"))
	}
	states := status.Field("allocatedResourceStatuses")
	for name, state := range c.Status.AllocatedResourceStatuses {
		claimResource(name, states)
		if !slices.Contains(resizeStates, state) {
			e.AddError(field.NotSupported(states.Path(), state, resizeStates))
		}
	}
	allocated := status.Field("allocatedResources")
	for name, q := range c.Status.AllocatedResources {
		if claimResource(name, allocated) {
			allocated.Key(string(name)).Quantity(corev1.ResourceStorage, q)
		}
	}
	return e.List()
}

// claimResource reports whether a claim may have a resource, and adds an error if not.
func claimResource(name corev1.ResourceName, e rules.Errors) bool {
	if m := validation.IsQualifiedName(string(name)); len(m) > 0 {
		e.Messages(name, m)
		return false
	}
	if rules.IsNative(name) && name != corev1.ResourceStorage {
		e.AddError(field.NotSupported(e.Path(), name, []corev1.ResourceName{corev1.ResourceStorage}))
		return false
	}
	return true
}

func warnClaim(c *corev1.PersistentVolumeClaim) []string {
	var out []string
	if hasKey(c.Annotations, corev1.BetaStorageClassAnnotation) {
		out = append(out, strings.Join([]string{annotationPath(corev1.BetaStorageClassAnnotation).String(),
			`deprecated since v1.8; use "storageClassName" attribute instead`}, ": "))
	}
	return append(out, rules.WarnClaimSpec(&c.Spec, field.NewPath("spec"))...)
}
