package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/expr"
	"github.com/kanzen-io/kanzen/internal/request"
)

// validating is the plugin that checks writes against ValidatingAdmissionPolicies.
type validating struct {
	Deps
	policies applying
}

func (v *validating) validate(ctx context.Context, a *admission.Attributes) error {
	set, err := v.policies.to(ctx, a)
	if err != nil {
		return notReady(a, err)
	}
	if set == nil {
		return nil
	}
	hits := set.table.Find(a)
	if len(hits) == 0 {
		return nil
	}
	j := &judgement{Deps: &v.Deps, a: a, write: expr.NewWrite(a, v.Namespaces, v.Authorizer)}
	for _, hit := range hits {
		version, ok := set.table.Confirm(hit, a)
		if !ok {
			continue
		}
		if err := j.hold(ctx, &set.bound[hit.Index], version); err != nil {
			return err
		}
	}
	return j.refusal()
}

// judgement is the check of a write against all policies that match it.
type judgement struct {
	*Deps
	a     *admission.Attributes
	write *expr.Write
	// denied is the first refusal; the others are only counted.
	denied string
	reason metav1.StatusReason
	inNS   bool // its namespace was found to exist
}

// hold checks the write against a policy whose rules match it. An error ends the
// judgement.
func (j *judgement) hold(ctx context.Context, p *bound, version admission.Version) error {
	if ok, err := p.selectors.Match(ctx, j.a, j.Namespaces); err != nil {
		j.misconfigured(p, nil, err)
		return nil
	} else if !ok {
		return nil
	}
	if err := j.known(p.policy); err != nil {
		j.misconfigured(p, nil, err)
		return nil
	}
	var said []keyValue
	began := time.Now()
	refused := &outcome{}
	defer func() { refused.noted(ctx, p, began) }()
	for _, b := range p.bindings {
		if ok, err := b.matches(ctx, j.a, j.Namespaces); err != nil {
			j.misconfigured(p, b, err)
			continue
		} else if !ok {
			continue
		}
		params, err := j.params(ctx, p.policy, b, j.a.Namespace)
		if err != nil {
			j.misconfigured(p, b, err)
			continue
		}
		view, err := j.write.In(ctx, version)
		if err != nil {
			j.misconfigured(p, b, fmt.Errorf("failed to convert object version: %w", err))
			continue
		}
		if err := j.namespace(ctx); err != nil {
			return err
		}
		for _, with := range params {
			decisions, annotations, wrong := p.evaluate(ctx, view, with)
			for i := range decisions {
				refused.add(b, &decisions[i])
				if !b.shadow && !p.shadow || decisions[i].admit {
					j.act(ctx, p, b, &decisions[i])
				}
			}
			for i := range wrong {
				refused.failed = true
				if !b.shadow && !p.shadow {
					j.deny(p, b, &wrong[i])
				}
			}
			for _, kv := range annotations {
				if !slices.Contains(said, kv) {
					said = append(said, kv)
				}
			}
		}
	}
	publish(ctx, p.name, said)
	return nil
}

// namespace makes sure that the write's namespace exists.
func (j *judgement) namespace(ctx context.Context) error {
	if j.inNS || j.a.Namespace == "" || j.a.Kind == corev1.SchemeGroupVersion.WithKind("Namespace") {
		return nil
	}
	_, err := j.Namespaces.NamespaceLabels(ctx, j.a.Namespace)
	j.inNS = err == nil
	return err
}

// misconfigured handles an error because of which a policy could not be evaluated.
func (j *judgement) misconfigured(p *bound, b *binding, err error) {
	if p.ignore || p.shadow || b != nil && b.shadow {
		return
	}
	if b == nil {
		j.refuse(fmt.Sprintf("ValidatingAdmissionPolicy '%s' denied request: failed to configure policy: %v", p.name, err), "")
		return
	}
	j.refuse(fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: failed to configure binding: %v", p.name, b.name, err), "")
}

func (j *judgement) refuse(message string, reason metav1.StatusReason) {
	if j.denied == "" {
		j.denied, j.reason = message, reason
	}
}

// act carries out the actions of a binding for a decision.
func (j *judgement) act(ctx context.Context, p *bound, b *binding, d *decision) {
	if d.admit {
		j.Metrics.Validation(p.name, b.name, d.errorType(), "allow", d.took)
		return
	}
	for _, action := range b.actions {
		switch action {
		case admissionv1.Deny:
			j.deny(p, b, d)
		case admissionv1.Audit:
			j.audit(ctx, b, d)
			j.Metrics.Validation(p.name, b.name, d.errorType(), "audit", d.took)
		case admissionv1.Warn:
			request.AddWarning(ctx, fmt.Sprintf("Validation failed for ValidatingAdmissionPolicy '%s' with binding '%s': %s", p.name, b.name, d.message))
			j.Metrics.Validation(p.name, b.name, d.errorType(), "warn", d.took)
		}
	}
}

func (j *judgement) deny(p *bound, b *binding, d *decision) {
	j.refuse(fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", p.name, b.name, d.message), d.reason)
	j.Metrics.Validation(p.name, b.name, d.errorType(), "deny", d.took)
}

// audit adds a failure to the audit event; of several, only the first.
func (j *judgement) audit(ctx context.Context, b *binding, d *decision) {
	if !request.AuditFrom(ctx).Wants(request.AuditMetadata) {
		return
	}
	type failure struct {
		Message           string                         `json:"message"`
		Policy            string                         `json:"policy"`
		Binding           string                         `json:"binding"`
		ExpressionIndex   int                            `json:"expressionIndex"`
		ValidationActions []admissionv1.ValidationAction `json:"validationActions"`
	}
	text, err := json.Marshal([]failure{{d.message, b.policy, b.name, d.index, b.actions}})
	if err == nil {
		request.AddAuditAnnotation(ctx, "validation.policy.admission.k8s.io/validation_failure", string(text))
	}
}

// publish adds a policy's audit annotations; it joins several values of a key.
func publish(ctx context.Context, policy string, said []keyValue) {
	for i, kv := range said {
		if slices.ContainsFunc(said[:i], func(o keyValue) bool { return o.key == kv.key }) {
			continue
		}
		var values []string
		for _, o := range said[i:] {
			if o.key == kv.key {
				values = append(values, o.value)
			}
		}
		request.AddAuditAnnotation(ctx, policy+"/"+kv.key, strings.Join(values, ", "))
	}
}

// refusal returns the answer to the client: nil if the write was not refused.
func (j *judgement) refusal() error {
	if j.denied == "" {
		return nil
	}
	reason := j.reason
	if reason == "" {
		reason = metav1.StatusReasonInvalid
	}
	err := admission.Forbidden(j.a, errors.New(j.denied))
	var st *apierrors.StatusError
	if errors.As(err, &st) {
		st.ErrStatus.Reason, st.ErrStatus.Code = reason, codeOf(reason)
		st.ErrStatus.Details.Causes = append(st.ErrStatus.Details.Causes, metav1.StatusCause{Message: j.denied})
	}
	return err
}

func codeOf(r metav1.StatusReason) int32 {
	switch r {
	case metav1.StatusReasonForbidden:
		return http.StatusForbidden
	case metav1.StatusReasonUnauthorized:
		return http.StatusUnauthorized
	case metav1.StatusReasonRequestEntityTooLarge:
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusUnprocessableEntity
}

// notReady refuses a write while the policies cannot be read.
func notReady(a *admission.Attributes, err error) error {
	return admission.Forbidden(a, fmt.Errorf("not yet ready to handle request: %w", err))
}
