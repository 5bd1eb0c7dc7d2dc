package webhook

import (
	"context"
	"encoding/json"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/expr"
	"github.com/kanzen-io/kanzen/internal/engine/admission/match"
	"github.com/kanzen-io/kanzen/internal/engine/admission/measure"
	"github.com/kanzen-io/kanzen/internal/engine/admission/patch"
	"github.com/kanzen-io/kanzen/internal/object/equal"
	"github.com/kanzen-io/kanzen/internal/request"
)

// mutating is the plugin that calls mutating webhooks.
type mutating struct {
	Deps
	hooks applying
}

func (m *mutating) admit(ctx context.Context, a *admission.Attributes) error {
	set, err := m.hooks.to(ctx, a)
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
	again := admission.BeginRound(a, MutatingName)
	if err := m.callAll(ctx, a, set, hits, again); err != nil {
		return err
	}
	again.End(a)
	return nil
}

// callAll calls the webhooks one after the other.
func (m *mutating) callAll(ctx context.Context, a *admission.Attributes, set *set, hits []match.Hit, again *admission.Reinvocation) error {
	write := expr.NewWrite(a, m.Namespaces, m.Authorizer)
	var s *subject
	for _, hit := range hits {
		h := set.hooks[hit.Index]
		version, view, err := m.calls(ctx, h, set, hit, a, write)
		if err != nil && h.shadow {
			continue
		}
		if err != nil {
			return err
		}
		if view == nil || !again.Calls(a, h.id) {
			continue
		}
		if s == nil || s.version != version {
			if s, err = newSubject(a, version, view); err != nil {
				return apierrors.NewInternalError(err)
			}
		}
		changed, err := m.call(ctx, a, h, s, hit.Index)
		if changed {
			write.Changed()
			s = nil
			again.Changed()
			a.RunAgain()
		}
		if h.reinvoke {
			again.Called(h.id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// call calls one webhook, and changes the object as it answers.
func (m *mutating) call(ctx context.Context, a *admission.Attributes, h *hook, s *subject, index int) (changed bool, err error) {
	round := 0
	if a.Again() {
		round = 1
	}
	note := annotator{h, fmt.Sprintf("round_%d_index_%d", round, index)}
	began := m.Clock.Now()
	r, err := m.ask(h.quietly(ctx), h, a, s, true)
	patches := err == nil && len(r.patch) > 0
	if err == nil && !h.shadow {
		changed, err = m.apply(ctx, a, h, s, r, note)
	}
	took := m.Clock.Since(began)
	request.Spend(ctx, request.LayerMutatingWebhook, took)
	m.noted(ctx, h, measure.Admit, began, took, changed || h.shadow && patches, err)
	if h.shadow {
		return false, nil
	}
	note.mutated(ctx, changed)
	m.observe(h, measure.Admit, a.Operation, err, took)
	if err == nil {
		return changed, nil
	}
	return changed, m.conclude(ctx, h, measure.Admit, err, func() { note.failedOpen(ctx) })
}

// apply replaces the write's object by the patched one.
func (m *mutating) apply(ctx context.Context, a *admission.Attributes, h *hook, s *subject, r *response, note annotator) (bool, error) {
	if len(r.patch) == 0 {
		return false, nil
	}
	p, err := patch.Decode(r.patch)
	if err != nil {
		return false, &callError{h.name, fmt.Errorf("received undecodable patch in webhook response: %w", err), 503}
	}
	if len(p) == 0 {
		return false, nil
	}
	if s.object == nil {
		return false, apierrors.NewInternalError(fmt.Errorf("admission webhook %q attempted to modify the object, which is not supported for this operation", h.name))
	}
	if r.patchType != admissionv1.PatchTypeJSONPatch {
		return false, &callError{h.name, fmt.Errorf("unsupported patch type %q", r.patchType), int(denied(h.name, r.result).status.ErrStatus.Code)}
	}
	patched, err := patch.Apply(p, s.objectJSON)
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	made, err := patch.DecodeObject(patched, s.object, false)
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	changed := !equal.Objects(s.object, made)
	note.patched(ctx, p)
	if !changed {
		return false, nil
	}
	if a.Versions != nil {
		if err := a.Versions.Complete(made); err != nil {
			return false, apierrors.NewInternalError(err)
		}
		if made, err = a.Versions.Hub(ctx, made); err != nil {
			return false, apierrors.NewInternalError(err)
		}
	}
	a.Object = made
	return true, nil
}

// annotator adds a webhook's call to the audit event.
type annotator struct {
	*hook
	place string
}

func (n annotator) mutated(ctx context.Context, changed bool) {
	if !request.AuditFrom(ctx).Wants(request.AuditMetadata) {
		return
	}
	n.add(ctx, "mutation.webhook.admission.k8s.io/", struct {
		Configuration string `json:"configuration"`
		Webhook       string `json:"webhook"`
		Mutated       bool   `json:"mutated"`
	}{n.configuration, n.name, changed})
}

// patched adds the patch itself, if the audit level includes requests.
func (n annotator) patched(ctx context.Context, p jsonpatch.Patch) {
	if !request.AuditFrom(ctx).Wants(request.AuditRequest) {
		return
	}
	n.add(ctx, "patch.webhook.admission.k8s.io/", struct {
		Configuration string          `json:"configuration"`
		Webhook       string          `json:"webhook"`
		Patch         jsonpatch.Patch `json:"patch,omitempty"`
		PatchType     string          `json:"patchType,omitempty"`
	}{n.configuration, n.name, p, string(admissionv1.PatchTypeJSONPatch)})
}

func (n annotator) failedOpen(ctx context.Context) {
	request.AddAuditAnnotation(ctx, "failed-open.mutation.webhook.admission.k8s.io/"+n.place, n.name)
}

func (n annotator) add(ctx context.Context, prefix string, v any) {
	if text, err := json.Marshal(v); err == nil {
		request.AddAuditAnnotation(ctx, prefix+n.place, string(text))
	}
}
