package rules

import (
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Subdomain is the rule for the names of most objects.
func Subdomain(name string, prefix bool) []string {
	return apivalidation.NameIsDNSSubdomain(name, prefix)
}

// Label is the rule for names that must be a DNS label.
func Label(name string, prefix bool) []string { return apivalidation.NameIsDNSLabel(name, prefix) }

// LabelOfLetter is the rule for names that must be a DNS label and begin with a letter.
func LabelOfLetter(name string, prefix bool) []string {
	return apivalidation.NameIsDNS1035Label(name, prefix)
}

// NamespaceName is the rule for namespaces.
func NamespaceName(name string, prefix bool) []string {
	return apivalidation.ValidateNamespaceName(name, prefix)
}

// ServiceAccountName is the rule for service accounts.
func ServiceAccountName(name string, prefix bool) []string {
	return apivalidation.ValidateServiceAccountName(name, prefix)
}

// DNSLabel reports a field that is not a DNS label.
func (e Errors) DNSLabel(name, value string) {
	if m := validation.IsDNS1123Label(value); len(m) > 0 {
		e.Field(name).Messages(value, m)
	}
}

// DNSSubdomain reports a field that is not a DNS name.
func (e Errors) DNSSubdomain(name, value string) {
	if m := validation.IsDNS1123Subdomain(value); len(m) > 0 {
		e.Field(name).Messages(value, m)
	}
}

// QualifiedName reports a value that is not a qualified name ("example.com/name").
func (e Errors) QualifiedName(value string) {
	e.Messages(value, validation.IsQualifiedName(value))
}

// LabelKey reports a field that cannot be the key of a label.
func (e Errors) LabelKey(name, value string) {
	if m := validation.IsQualifiedName(value); len(m) > 0 {
		e.Field(name).Messages(value, m)
	}
}

// DataKey reports a field that cannot be a key of a config map or secret.
func (e Errors) DataKey(name, value string) {
	if m := validation.IsConfigMapKey(value); len(m) > 0 {
		e.Field(name).Messages(value, m)
	}
}

// Labels validates labels in a field.
func (e Errors) Labels(name string, labels map[string]string) {
	if len(labels) > 0 {
		e.Add(metavalidation.ValidateLabels(labels, e.Path().Child(name)))
	}
}

// Annotations validates annotations in a field.
func (e Errors) Annotations(name string, annotations map[string]string) {
	if len(annotations) > 0 {
		e.Add(apivalidation.ValidateAnnotations(annotations, e.Path().Child(name)))
	}
}

// LabelSelector validates a selector in a field. allowInvalidValues accepts invalid label values, for stored objects
// that have them.
func (e Errors) LabelSelector(name string, s *metav1.LabelSelector, allowInvalidValues bool) {
	if s == nil {
		return
	}
	o := metavalidation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: allowInvalidValues}
	e.Add(metavalidation.ValidateLabelSelector(s, o, e.Path().Child(name)))
}

// InvalidLabelSelector reports whether a new selector like this would be rejected.
func InvalidLabelSelector(s *metav1.LabelSelector) bool {
	return len(metavalidation.ValidateLabelSelector(s, metavalidation.LabelSelectorValidationOptions{}, nil)) > 0
}

// CSIDriverName validates the name of a CSI driver.
func (e Errors) CSIDriverName(name, value string) {
	if !e.Present(name, value) {
		return
	}
	if len(value) > 63 {
		e.Field(name).TooLong(63)
	}
	if m := validation.IsDNS1123Subdomain(strings.ToLower(value)); len(m) > 0 {
		e.Field(name).Messages(value, m)
	}
}

// OfKubernetes reports whether a prefixed name is in a domain of Kubernetes itself.
func OfKubernetes(name string) bool {
	domain, _, _ := strings.Cut(name, "/")
	domain = "." + strings.TrimRight(strings.TrimSpace(strings.ToLower(domain)), ".")
	return strings.HasSuffix(domain, ".k8s.io") || strings.HasSuffix(domain, ".kubernetes.io")
}
