package crd

import (
	"context"
	"encoding/json"
	"log/slog"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	admissionwebhook "github.com/kanzen-io/kanzen/internal/engine/admission/webhook"
	"github.com/kanzen-io/kanzen/internal/wire/remote"
)

// NewCall returns a Call by clients without credentials.
func NewCall(clients *admissionwebhook.Clients, clk clock.PassiveClock, log *slog.Logger) Call {
	return (&caller{clients, admissionwebhook.NewTrouble("a conversion webhook", log, clk), clk, log}).call
}

// caller calls conversion webhooks in the same way as admission webhooks,
// but without credentials.
type caller struct {
	clients *admissionwebhook.Clients
	trouble *admissionwebhook.Trouble
	clock   clock.PassiveClock
	log     *slog.Logger
}

func (c *caller) call(ctx context.Context, w *apiextensionsv1.WebhookClientConfig, request, response any) error {
	cc, id := &admissionv1.WebhookClientConfig{URL: w.URL, CABundle: w.CABundle}, ptr.Deref(w.URL, "")
	if r := w.Service; r != nil {
		id = r.Name + "." + r.Namespace + ".svc" + ptr.Deref(r.Path, "")
		cc.Service = &admissionv1.ServiceReference{Namespace: r.Namespace, Name: r.Name, Path: r.Path, Port: r.Port}
	}
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	began := c.clock.Now()
	answer, err := c.clients.Post(ctx, cc, body)
	if err != nil {
		c.trouble.Failed(id, "objects cannot be read or written in other versions than the stored one", err, "webhook", id)
		if said := remote.Said(err); said != "" {
			c.log.Debug("a conversion webhook did not answer with a review", "error", err, "said", said)
		}
		return err
	}
	c.trouble.Answered(id, c.clock.Since(began), "webhook", id)
	return json.Unmarshal(answer, response)
}
