package rules

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateMeta is ValidateObjectMetaAccessor of the library, which is asked only if metadata is not plain: it matches regular
// expressions, which was most of what validating a small object cost.
func ValidateMeta(m metav1.Object, namespaced bool, name NameRule, path *field.Path) field.ErrorList {
	if m.GetGenerateName() == "" && m.GetName() != "" && m.GetGeneration() >= 0 && namespaced == (m.GetNamespace() != "") &&
		(!namespaced || isLabel(m.GetNamespace())) && plainMeta(m) && plainFinalizers(m.GetFinalizers()) && len(name(m.GetName(), false)) == 0 {
		return nil
	}
	return validation.ValidateObjectMetaAccessor(m, namespaced, validation.ValidateNameFunc(name), path)
}

// plainMeta says that labels, annotations, owners and managers of fields are valid. It may say no of what is, too.
func plainMeta(m metav1.Object) bool {
	for k, v := range m.GetLabels() {
		if !isLabelKey(k) || v != "" && !isLabelText(v) {
			return false
		}
	}
	size := 0
	for k, v := range m.GetAnnotations() {
		if size += len(k) + len(v); !isAnnotationKey(k) {
			return false
		}
	}
	if size > validation.TotalAnnotationSizeLimitB {
		return false
	}
	controlled := false
	for _, o := range m.GetOwnerReferences() {
		controls := o.Controller != nil && *o.Controller
		if !isLabelKey(o.APIVersion) || o.Kind == "" || o.Kind == "Event" || o.Name == "" || o.UID == "" || controls && controlled {
			return false
		}
		controlled = controlled || controls
	}
	for _, f := range m.GetManagedFields() {
		if f.Operation != metav1.ManagedFieldsOperationApply && f.Operation != metav1.ManagedFieldsOperationUpdate ||
			f.FieldsType != "" && f.FieldsType != "FieldsV1" || len(f.Subresource) > metavalidation.MaxSubresourceNameLength ||
			len(f.Manager) > metavalidation.FieldManagerMaxLength || !isPrintable(f.Manager) {
			return false
		}
	}
	return true
}

func plainFinalizers(names []string) bool {
	for _, n := range names {
		if !isLabelKey(n) || len(names) > 1 && standardFinalizers[n] {
			return false
		}
	}
	return true
}

// isLabelKey says whether a text is a name that may have a domain before it, as keys of labels are.
func isLabelKey(s string) bool {
	domain, name, found := strings.Cut(s, "/")
	if !found {
		return isLabelText(s)
	}
	return len(domain) <= 253 && isDomain(domain) && isLabelText(name)
}

// isAnnotationKey is isLabelKey for a domain in any case.
func isAnnotationKey(s string) bool {
	return isLabelKey(s) || isLabelKey(strings.ToLower(s))
}

// isLabelText says whether a text is as values of labels are when they are not empty.
func isLabelText(s string) bool {
	if s == "" || len(s) > 63 || !isAlphanumeric(s[0]) || !isAlphanumeric(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isAlphanumeric(c) && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z'
}

// isLabel says whether a text is a label of a domain name, in lower case.
func isLabel(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c != '-' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// isDomain says whether a text is labels with dots between them.
func isDomain(s string) bool {
	for label := range strings.SplitSeq(s, ".") {
		if !isLabel(label) {
			return false
		}
	}
	return true
}

func isPrintable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
