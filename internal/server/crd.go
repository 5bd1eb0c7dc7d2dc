package server

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/kanzen-io/kanzen/internal/admission/webhook"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/kanzen-io/kanzen/internal/crd"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/remote"
)

// This file puts the API Extensions Server beside the API Server.

func (b *base) customResources(eng *engine.Engine) *crd.Server {
	return crd.New(crd.Config{
		Engine: eng, Store: b.objects.Store,
		Definitions: b.builtin(apiextensionsv1.GroupName, "customresourcedefinitions"), Catalog: b.objects.Live,
		Call:    (&conversion{b.clients(webhook.Credentials{}), webhook.NewTrouble("a conversion webhook", b.log, b.ground.Clock), b.ground.Clock, b.log}).call,
		Client:  b.itself,
		Metrics: crd.NewMetrics(b.metrics.Registry(), b.ground.Clock), Queues: b.queues,
		Clock: b.ground.Clock, Guard: b.guard, Log: b.log,
	})
}

// builtin returns the endpoint of a built-in resource.
func (b *base) builtin(group, resource string) *engine.Endpoint {
	ep, err := b.objects.Endpoint(schema.GroupResource{Group: group, Resource: resource})
	if err != nil {
		panic(err) // a name misspelled in this package
	}
	return ep
}

// conversion calls conversion webhooks in the same way as admission webhooks,
// but without credentials.
type conversion struct {
	clients *webhook.Clients
	trouble *webhook.Trouble
	clock   clock.PassiveClock
	log     *slog.Logger
}

func (c *conversion) call(ctx context.Context, w *apiextensionsv1.WebhookClientConfig, request, response any) error {
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
