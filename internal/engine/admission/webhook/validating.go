package webhook

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/expr"
	"github.com/kanzen-io/kanzen/internal/engine/admission/match"
	"github.com/kanzen-io/kanzen/internal/engine/admission/measure"
	"github.com/kanzen-io/kanzen/internal/request"
)

// validating is the plugin that calls validating webhooks.
type validating struct {
	Deps
	hooks applying
}

// due is a webhook to call for a write, with the subject to send.
type due struct {
	*hook
	*subject
}

func (v *validating) validate(ctx context.Context, a *admission.Attributes) error {
	set, err := v.hooks.to(ctx, a)
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
	dues, err := v.due(ctx, a, set, hits)
	if err != nil || len(dues) == 0 {
		return err
	}
	if ctx.Err() != nil {
		return outOfTime()
	}
	if len(dues) == 1 {
		return v.call(ctx, a, dues[0], 0)
	}
	errs := make([]error, len(dues))
	var wg sync.WaitGroup
	for i, d := range dues {
		wg.Go(func() { errs[i] = v.call(ctx, a, d, i) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// due finds the webhooks to call.
func (v *validating) due(ctx context.Context, a *admission.Attributes, set *set, hits []match.Hit) ([]due, error) {
	var out []due
	var subjects []*subject
	write := expr.NewWrite(a, v.Namespaces, v.Authorizer)
	for _, hit := range hits {
		h := set.hooks[hit.Index]
		version, view, err := v.calls(ctx, h, set, hit, a, write)
		if err != nil && h.shadow {
			continue
		}
		if err != nil {
			return nil, err
		}
		if view == nil {
			continue
		}
		var s *subject
		for _, have := range subjects {
			if have.version == version {
				s = have
			}
		}
		if s == nil {
			if s, err = newSubject(a, version, view); err != nil {
				return nil, apierrors.NewInternalError(err)
			}
			subjects = append(subjects, s)
		}
		out = append(out, due{h, s})
	}
	return out, nil
}

// calls says whether to call a webhook whose rules match a write: it returns
// the version and view to send, or a nil view.
func (d *Deps) calls(ctx context.Context, h *hook, set *set, hit match.Hit, a *admission.Attributes, write *expr.Write) (admission.Version, *expr.View, error) {
	version, ok := set.table.Confirm(hit, a)
	if !ok {
		return version, nil, nil
	}
	if ok, err := h.selectors.Match(ctx, a, d.Namespaces); err != nil || !ok {
		return version, nil, err
	}
	// Conditions see the write's own resource, whatever the version of its
	// objects.
	asked, err := write.In(ctx, admission.Version{Resource: a.Resource, Kind: version.Kind})
	if err != nil {
		return version, nil, apierrors.NewInternalError(err)
	}
	met, err := h.conditions.Match(ctx, asked, nil, nil)
	if err != nil {
		d.Log.Warn("failed to evaluate match conditions; the write is refused", "webhook", h.name, "error", err)
		return version, nil, apierrors.NewForbidden(a.Resource.GroupResource(), a.Name, err)
	}
	if !met {
		h.conditions.Excluded(asked)
		return version, nil, nil
	}
	view, err := write.In(ctx, version)
	if err != nil {
		return version, nil, apierrors.NewInternalError(err)
	}
	return version, view, nil
}

// call calls one webhook and concludes. A panic counts as a failed call.
func (v *validating) call(ctx context.Context, a *admission.Attributes, d due, index int) (err error) {
	defer func() {
		if p := recover(); p != nil {
			v.Log.Error("panic calling a webhook", "webhook", d.name, "panic", p)
			if err = apierrors.NewInternalError(fmt.Errorf("ValidatingAdmissionWebhook/%v has panicked: %v", d.name, p)); d.ignore {
				err = nil
			}
		}
	}()
	began := v.Clock.Now()
	_, err = v.ask(d.quietly(ctx), d.hook, a, d.subject, false)
	took := v.Clock.Since(began)
	request.Spend(ctx, request.LayerValidatingWebhook, took)
	v.noted(ctx, d.hook, measure.Validating, began, took, false, err)
	if d.shadow {
		return nil
	}
	v.observe(d.hook, measure.Validating, a.Operation, err, took)
	return v.conclude(ctx, d.hook, measure.Validating, err, func() {
		request.AddAuditAnnotation(ctx, fmt.Sprintf("failed-open.validating.webhook.admission.k8s.io/round_0_index_%d", index), d.name)
	})
}

// notReady refuses a write while the configurations cannot be read.
func notReady(a *admission.Attributes, err error) error {
	return admission.Forbidden(a, fmt.Errorf("not yet ready to handle request: %w", err))
}
