package admissionregistration

import (
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells/celltest"
)

func TestTables(t *testing.T) {
	celltest.Run(t, map[string]celltest.Kind{
		"MutatingAdmissionPolicy":          celltest.For[admissionv1.MutatingAdmissionPolicy](mutatingAdmissionPolicyTable()),
		"MutatingAdmissionPolicyBinding":   celltest.For[admissionv1.MutatingAdmissionPolicyBinding](mutatingAdmissionPolicyBindingTable()),
		"MutatingWebhookConfiguration":     celltest.For[admissionv1.MutatingWebhookConfiguration](mutatingWebhookConfigurationTable()),
		"ValidatingAdmissionPolicy":        celltest.For[admissionv1.ValidatingAdmissionPolicy](validatingAdmissionPolicyTable()),
		"ValidatingAdmissionPolicyBinding": celltest.For[admissionv1.ValidatingAdmissionPolicyBinding](validatingAdmissionPolicyBindingTable()),
		"ValidatingWebhookConfiguration":   celltest.For[admissionv1.ValidatingWebhookConfiguration](validatingWebhookConfigurationTable()),
	})
}
