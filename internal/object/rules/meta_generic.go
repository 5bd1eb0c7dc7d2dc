package rules

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// GenericMeta is ObjectMeta for the few kinds that accept finalizers without a domain: the check was added only to the
// other kinds.
func GenericMeta(m *metav1.ObjectMeta, namespaced bool, name NameRule) field.ErrorList {
	return ValidateMeta(m, namespaced, name, metadata)
}

// GenericMetaUpdate is ObjectMetaUpdate for the same kinds.
func GenericMetaUpdate(m, old *metav1.ObjectMeta) field.ErrorList {
	return metaUpdate(m, old)
}
