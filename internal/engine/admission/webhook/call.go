package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/base/span"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/measure"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/wire/remote"
)

// ask sends a review of a write to a webhook and returns a verified answer that allows it. A *callError is a
// failed call, a *rejection an answer that refuses; any other error refuses, too.
func (d *Deps) ask(ctx context.Context, h *hook, a *admission.Attributes, s *subject, mutating bool) (*response, error) {
	if d.Rehearsal && !a.DryRun {
		rehearsed := *a
		rehearsed.DryRun = true
		a = &rehearsed
	}
	if a.DryRun {
		if h.sideEffects == nil {
			//lint:ignore ST1005 these are the words that clients know
			return nil, &callError{h.name, errors.New("Webhook SideEffects is nil"), 400}
		}
		if *h.sideEffects != admissionv1.SideEffectClassNone && *h.sideEffects != admissionv1.SideEffectClassNoneOnDryRun {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("admission webhook %q does not support dry run", h.name))
		}
	}
	version := reviewVersion(h.reviewVersions)
	if version == "" {
		return nil, &callError{h.name, errors.New("could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"), 400}
	}
	uid := d.NewUID()
	body, err := review(a, s, version, uid)
	if err != nil {
		return nil, &callError{h.name, fmt.Errorf("could not create admission objects: %w", err), 400}
	}
	client, err := d.Clients.of(h.target)
	if err != nil {
		return nil, &callError{h.name, fmt.Errorf("could not get REST client: %w", err), 500}
	}
	ctx, sp := traced(ctx, h, a, uid, mutating)
	defer sp.End()
	got, err := d.post(ctx, h, a, client, body)
	if err != nil {
		if said := remote.Said(err); said != "" {
			d.Log.Debug("a webhook did not answer with a review", "webhook", h.name, "error", err, "said", said)
		}
		return nil, &callError{h.name, fmt.Errorf("failed to call webhook: %w", err), codeOf(err, 503)}
	}
	sp.Event("Request completed")
	answer, err := reviews().read(got, version)
	if err != nil {
		return nil, &callError{h.name, fmt.Errorf("failed to call webhook: %w", err), codeOf(err, 503)}
	}
	r, err := verify(uid, mutating, answer)
	if err != nil {
		return nil, &callError{h.name, fmt.Errorf("received invalid webhook response: %w", err), 503}
	}
	for k, v := range r.auditAnnotations {
		request.AddAuditAnnotation(ctx, h.name+"/"+k, v)
	}
	for _, w := range r.warnings {
		request.AddWarning(ctx, w)
	}
	if !r.allowed {
		return nil, denied(h.name, r.result)
	}
	return r, nil
}

// traced begins the span of a call.
func traced(ctx context.Context, h *hook, a *admission.Attributes, uid types.UID, mutating bool) (context.Context, span.Span) {
	name := "Call validating webhook"
	if mutating {
		name = "Call mutating webhook"
	}
	ctx, s := span.Start(ctx, name)
	if s.On() {
		s.Set(attribute.String("configuration", h.configuration), attribute.String("webhook", h.name),
			attribute.String("resource", a.Resource.String()), attribute.String("subresource", a.Subresource),
			attribute.String("operation", string(a.Operation)), attribute.String("UID", string(uid)))
	}
	return ctx, s
}

// observe counts a call and its result, and warns of trouble.
func (d *Deps) observe(h *hook, p measure.Phase, op admission.Operation, err error, took time.Duration) {
	m := d.Metrics
	var failed *callError
	var refused *rejection
	d.warn(h, err, took)
	switch {
	case err == nil:
		m.Webhook(h.name, p, op, false, 200, took)
	case errors.As(err, &failed):
		if !h.ignore && !errors.Is(err, context.Canceled) {
			m.Rejection(h.name, p, op, measure.CallingError, failed.code)
		}
		m.Webhook(h.name, p, op, !h.ignore, failed.code, took)
	case errors.As(err, &refused):
		code := int(refused.status.ErrStatus.Code)
		m.Rejection(h.name, p, op, measure.NoError, code)
		m.Webhook(h.name, p, op, true, code, took)
	default:
		m.Rejection(h.name, p, op, measure.InternalError, 0)
		m.Webhook(h.name, p, op, true, 0, took)
	}
}

// conclude turns the result of a call into the error for the client; nil: the write goes on. open is called for a
// failure that the webhook's failure policy ignores.
func (d *Deps) conclude(ctx context.Context, h *hook, p measure.Phase, err error, open func()) error {
	var failed *callError
	var refused *rejection
	switch {
	case errors.As(err, &refused):
		return refused.status
	case !errors.As(err, &failed):
		return err
	case !h.ignore:
		return apierrors.NewInternalError(err)
	}
	if !errors.Is(err, context.Canceled) {
		d.Metrics.FailOpen(h.name, p)
		open()
	}
	if p == measure.Admit && ctx.Err() != nil {
		return outOfTime()
	}
	return nil
}

func outOfTime() error {
	return apierrors.NewTimeoutError("request did not complete within requested timeout", 0)
}
