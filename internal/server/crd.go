package server

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/api/crd"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/admission/webhook"
	"github.com/kanzen-io/kanzen/internal/store"
)

// This file puts the API Extensions Server beside the API Server.

func (b *base) customResources(eng *engine.Engine) *crd.Server {
	return crd.New(crd.Config{
		Engine: eng, Store: b.objects.Store,
		Definitions: b.builtin(apiextensionsv1.GroupName, "customresourcedefinitions"), Catalog: b.objects.Live,
		Call:    crd.NewCall(b.clients(webhook.Credentials{}), b.process.Clock, b.log),
		Client:  b.itself,
		Metrics: crd.NewMetrics(b.metrics.Registry(), b.process.Clock), Queues: b.queues,
		Clock: b.process.Clock, Guard: b.guard, Log: b.log,
	})
}

// ownKinds adds the kinds of the seams.
func (b *base) ownKinds(eng *engine.Engine, custom *crd.Server) error {
	if len(b.seams.Kinds) == 0 {
		return nil
	}
	var all []crd.Fixed
	for _, d := range b.seams.Kinds {
		all = append(all, crd.Fixed{Definition: d})
	}
	_, err := crd.NewFixed(crd.Config{
		Engine: eng, Store: b.objects.Store, Catalog: b.objects.Live, Metrics: custom.Metrics, Clock: b.process.Clock, Guard: b.guard, Log: b.log,
	}, all...)
	return err
}

// builtin returns the endpoint of a built-in resource.
func (b *base) builtin(group, resource string) *engine.Endpoint {
	ep, err := b.objects.Endpoint(schema.GroupResource{Group: group, Resource: resource})
	if err != nil {
		panic(err) // a name misspelled in this package
	}
	return ep
}

// namespaces returns the view of the namespaces.
func (b *base) namespaces() *store.View {
	return b.builtin("", "namespaces").View()
}
