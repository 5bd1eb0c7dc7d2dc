package webhook

import (
	"context"
	"errors"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// outcome is what a call says about a webhook, apart from the object.
type outcome int

const (
	// unclear: the connection was lost, or the client has not waited as long as the webhook may take.
	unclear outcome = iota
	// answered: there was an answer, with any status.
	answered
	// gone: there was no connection, or no answer within the webhook's timeout.
	gone
)

// try sends a review, and also says what the call tells about the webhook.
func (c *client) try(ctx context.Context, timeout time.Duration, body []byte) ([]byte, outcome, error) {
	call, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var connected, began atomic.Bool
	got, err := c.post(httptrace.WithClientTrace(call, &httptrace.ClientTrace{
		GotConn:              func(httptrace.GotConnInfo) { connected.Store(true) },
		GotFirstResponseByte: func() { began.Store(true) },
	}), body)
	var status *apierrors.StatusError
	switch {
	case err == nil, began.Load(), errors.As(err, &status):
		return got, answered, err
	case ctx.Err() != nil:
		return got, unclear, err
	case !connected.Load(), errors.Is(err, context.DeadlineExceeded):
		return got, gone, err
	}
	return got, unclear, err
}

// timeout bounds a call of the webhook.
func (h *hook) timeout() time.Duration {
	if h.timeoutSeconds == nil {
		return callTimeout
	}
	return time.Duration(*h.timeoutSeconds) * time.Second
}

// probeOf returns a func that asks a webhook about an object that is not stored, as a dry run. It returns nil for a webhook
// that must not be asked about dry runs.
func (d *Deps) probeOf(h *hook) func(ctx context.Context) outcome {
	version := reviewVersion(h.reviewVersions)
	if version == "" || h.sideEffects == nil ||
		*h.sideEffects != admissionv1.SideEffectClassNone && *h.sideEffects != admissionv1.SideEffectClassNoneOnDryRun {
		return nil
	}
	return func(ctx context.Context) outcome {
		body, err := d.probeReview(version)
		if err != nil {
			return unclear
		}
		c, err := d.Clients.of(h.target)
		if err != nil {
			return unclear
		}
		_, o, _ := c.try(ctx, h.timeout(), body) // only the outcome counts
		return o
	}
}

// probeReview is the review of the creation of a ConfigMap, as a dry run of this server's own user.
func (d *Deps) probeReview(version string) ([]byte, error) {
	a := &admission.Attributes{
		Operation: admission.Create, Kind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Resource: corev1.SchemeGroupVersion.WithResource("configmaps"),
		Namespace: metav1.NamespaceSystem, Name: "kanzen-webhook-probe", DryRun: true, User: &user.DefaultInfo{Name: user.APIServerUser},
	}
	s := &subject{version: admission.Version{Resource: a.Resource, Kind: a.Kind}}
	var err error
	if s.objectJSON, err = encode(&corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: a.Name, Namespace: a.Namespace}}); err != nil {
		return nil, err
	}
	if s.optionsJSON, err = encode(&metav1.CreateOptions{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "CreateOptions"}, DryRun: []string{metav1.DryRunAll}}); err != nil {
		return nil, err
	}
	s.oldJSON, err = encode(nil)
	if err != nil {
		return nil, err
	}
	return review(a, s, version, d.NewUID())
}
