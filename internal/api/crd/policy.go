package crd

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/url"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/apiextensions"
)

// structural updates the condition NonStructuralSchema. Only definitions created before v1 can have such schemas, and
// they preserve unknown fields.
func (c *controller) structural(d *apiextensionsv1.CustomResourceDefinition) bool {
	if !d.Spec.PreserveUnknownFields && findCondition(d, apiextensionsv1.NonStructuralSchema) == nil {
		return false
	}
	errs := apiextensions.NonStructural(d)
	if len(errs) == 0 {
		return dropCondition(d, apiextensionsv1.NonStructuralSchema)
	}
	return setCondition(d, condition{
		Type: apiextensionsv1.NonStructuralSchema, Status: apiextensionsv1.ConditionTrue,
		Reason: "Violations", Message: errs.ToAggregate().Error(),
	}, c.Clock)
}

// approved updates the condition of a definition in a protected group: whether the Kubernetes community has approved
// it.
func (c *controller) approved(d *apiextensionsv1.CustomResourceDefinition) bool {
	if !isProtected(d.Spec.Group) {
		return false
	}
	cond := approval(d.Annotations[apiextensionsv1.KubeAPIApprovedAnnotation])
	cond.Type = apiextensionsv1.KubernetesAPIApprovalPolicyConformant
	return setCondition(d, cond, c.Clock)
}

// isProtected reports whether a group's APIs need approval.
func isProtected(group string) bool {
	for _, domain := range []string{"k8s.io", "kubernetes.io"} {
		if group == domain || strings.HasSuffix(group, "."+domain) {
			return true
		}
	}
	return false
}

// approval returns the condition for an annotation.
func approval(annotation string) condition {
	const proposal = "https://github.com/kubernetes/enhancements/pull/1111"
	u, err := url.ParseRequestURI(annotation)
	switch {
	case annotation == "":
		return condition{Status: apiextensionsv1.ConditionFalse, Reason: "MissingAnnotation", Message: fmt.Sprintf(
			"protected groups must have approval annotation %q, see %s", apiextensionsv1.KubeAPIApprovedAnnotation, proposal)}
	case strings.HasPrefix(annotation, "unapproved"):
		return condition{Status: apiextensionsv1.ConditionFalse, Reason: "UnapprovedAnnotation", Message: fmt.Sprintf("not approved: %q", annotation)}
	case err == nil && u.Host != "" && u.Scheme != "":
		return condition{Status: apiextensionsv1.ConditionTrue, Reason: "ApprovedAnnotation", Message: "approved in " + annotation}
	}
	return condition{Status: apiextensionsv1.ConditionFalse, Reason: "InvalidAnnotation", Message: fmt.Sprintf(
		"protected groups must have approval annotation %q with either a URL or a reason starting with \"unapproved\", see %s",
		apiextensionsv1.KubeAPIApprovedAnnotation, proposal)}
}

// validBundle reports whether a CA bundle is empty or contains only certificates.
func validBundle(bundle []byte) bool {
	rest := bundle
	for found := 0; ; found++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return len(bundle) == 0 || found > 0
		}
		if _, err := x509.ParseCertificate(block.Bytes); block.Type == "CERTIFICATE" && err != nil {
			return false
		}
	}
}
