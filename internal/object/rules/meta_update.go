package rules

import (
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	metaLabels   = metadata.Child("labels")
	metaNotes    = metadata.Child("annotations")
	metaOwners   = metadata.Child("ownerReferences")
	metaManagers = metadata.Child("managedFields")
)

// metaUpdate is the library's validation of an update. The library makes a path for each field before it looks at it, and most
// updates change none of those that must not change.
func metaUpdate(m, old *metav1.ObjectMeta) field.ErrorList {
	if !KeepsIdentity(m, old) {
		return validation.ValidateObjectMetaUpdate(m, old, metadata)
	}
	if plainMeta(m) {
		return nil
	}
	errs := v1validation.ValidateLabels(m.Labels, metaLabels)
	errs = append(errs, validation.ValidateAnnotations(m.Annotations, metaNotes)...)
	errs = append(errs, validation.ValidateOwnerReferences(m.OwnerReferences, metaOwners)...)
	return append(errs, v1validation.ValidateManagedFields(m.ManagedFields, metaManagers)...)
}

// KeepsIdentity reports whether an update leaves everything as it is that updates must not change. An object whose deletion has
// begun is another matter: it gets no new finalizers.
func KeepsIdentity(m, old metav1.Object) bool {
	created, before := m.GetCreationTimestamp(), old.GetCreationTimestamp()
	return m.GetName() == old.GetName() && m.GetNamespace() == old.GetNamespace() && m.GetUID() == old.GetUID() &&
		m.GetResourceVersion() != "" && m.GetGeneration() >= old.GetGeneration() && created.UTC() == before.UTC() &&
		m.GetDeletionTimestamp() == nil && old.GetDeletionTimestamp() == nil &&
		m.GetDeletionGracePeriodSeconds() == nil && old.GetDeletionGracePeriodSeconds() == nil
}

// OnlyForCollection reports whether an update changes only what garbage collection uses. The collector does not have the
// permissions that some writes of a kind need.
func OnlyForCollection(obj, old interface {
	metav1.Object
	runtime.Object
}) bool {
	o := obj.DeepCopyObject().(metav1.Object)
	o.SetOwnerReferences(old.GetOwnerReferences())
	o.SetFinalizers(old.GetFinalizers())
	o.SetManagedFields(old.GetManagedFields())
	return apiequality.Semantic.DeepEqual(o, old)
}
