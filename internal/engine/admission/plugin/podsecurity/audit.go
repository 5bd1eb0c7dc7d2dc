package podsecurity

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/request"
)

// annotate adds a decision or its reason to the audit event of the request.
func annotate(ctx context.Context, key, value string) {
	request.AddAuditAnnotation(ctx, "pod-security.kubernetes.io/"+key, value)
}

// audit adds violations of the namespace's audit level to the audit event.
func (p *plugin) audit(ctx context.Context, a *admission.Attributes, lv api.LevelVersion, meta *metav1.ObjectMeta, spec *corev1.PodSpec) {
	if !request.AuditFrom(ctx).Wants(request.AuditMetadata) {
		return
	}
	if r := p.judge(lv, meta, spec); !r.Allowed {
		p.metrics.evaluated(a, lv, "audit", false)
		annotate(ctx, api.AuditViolationsAnnotationKey, fmt.Sprintf("would violate PodSecurity %q: %s", lv.String(), r.ForbiddenDetail()))
	}
}

// exempt says that the user or namespace of a write is exempt, and adds that to
// the audit event.
func (p *plugin) exempt(ctx context.Context, a *admission.Attributes) bool {
	if !p.exempts(a) {
		return false
	}
	reason := "user"
	if slices.Contains(p.Exemptions.Namespaces, a.Namespace) {
		reason = "namespace"
	}
	p.metrics.exempted(a)
	annotate(ctx, api.ExemptionReasonAnnotationKey, reason)
	return true
}

// exemptClass says that the runtime class of a pod is exempt, and adds that to
// the audit event.
func (p *plugin) exemptClass(ctx context.Context, a *admission.Attributes, spec *corev1.PodSpec) bool {
	if !p.exemptsClass(spec) {
		return false
	}
	p.metrics.exempted(a)
	annotate(ctx, api.ExemptionReasonAnnotationKey, "runtimeClass")
	return true
}
