package rules

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var metadata = field.NewPath("metadata")

// ObjectMeta validates the metadata of an object.
func ObjectMeta(m *metav1.ObjectMeta, namespaced bool, name NameRule) field.ErrorList {
	return ObjectMetaAt(m, namespaced, name, metadata)
}

// ObjectMetaAt is ObjectMeta for metadata at another path.
func ObjectMetaAt(m *metav1.ObjectMeta, namespaced bool, name NameRule, path *field.Path) field.ErrorList {
	errs := ValidateMeta(m, namespaced, name, path)
	return append(errs, finalizers(m.Finalizers, path.Child("finalizers"))...)
}

// ObjectMetaOfName is ObjectMeta for kinds that validate the generated name, but not generateName.
func ObjectMetaOfName(m *metav1.ObjectMeta, namespaced bool, name NameRule) field.ErrorList {
	return ObjectMeta(m, namespaced, func(s string, prefix bool) []string {
		if prefix {
			return nil
		}
		return name(s, false)
	})
}

// ObjectMetaUpdate reports changes of immutable metadata.
func ObjectMetaUpdate(m, old *metav1.ObjectMeta) field.ErrorList {
	errs := metaUpdate(m, old)
	return append(errs, finalizers(m.Finalizers, metadata.Child("finalizers"))...)
}

// standardFinalizers are Kubernetes' own finalizers, which have no domain.
var standardFinalizers = map[string]bool{
	"kubernetes":                     true,
	metav1.FinalizerOrphanDependents: true,
	metav1.FinalizerDeleteDependents: true,
}

func finalizers(names []string, path *field.Path) field.ErrorList {
	e := At(path)
	for i, n := range names {
		ownFinalizer(n, e.Item(i))
	}
	return e.List()
}

func ownFinalizer(name string, e Errors) {
	if !strings.Contains(name, "/") && !standardFinalizers[name] {
		e.Invalid(name, "name is neither a standard finalizer name nor is it fully qualified")
	}
}

// Finalizer validates one finalizer.
func Finalizer(name string, path *field.Path) field.ErrorList {
	e := At(path)
	e.Add(validation.ValidateFinalizerName(name, path))
	ownFinalizer(name, e)
	return e.List()
}

// Immutable returns an error if a value has changed.
func Immutable(value, old any, path *field.Path) field.ErrorList {
	return validation.ValidateImmutableField(value, old, path)
}

// NeedsResourceVersion reports a status update without a resourceVersion.
func NeedsResourceVersion(m *metav1.ObjectMeta) field.ErrorList {
	if m.ResourceVersion == "" {
		return field.ErrorList{field.Required(field.NewPath("resourceVersion"), "")}
	}
	return nil
}

func rangeMessage(lo, hi int64) string {
	return fmt.Sprintf("must be between %d and %d, inclusive", lo, hi)
}
