package server

import (
	"context"
	"encoding/json"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/crd"
	crdopenapi "github.com/kanzen-io/kanzen/internal/crd/openapi"
	"github.com/kanzen-io/kanzen/internal/discovery"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/live"
	"github.com/kanzen-io/kanzen/internal/openapi"
)

// This file puts the API Extensions Server beside the API Server.

func (s *Server) customResources(eng *engine.Engine) *crd.Server {
	return crd.New(crd.Config{
		Engine: eng, Store: s.store,
		Definitions: s.builtin(apiextensionsv1.GroupName, "customresourcedefinitions"), Catalog: s.objects.Live,
		Call:    s.callWebhook,
		Metrics: crd.NewMetrics(s.metrics.Registry(), s.clock),
		Clock:   s.clock, Guard: s.guard, Log: s.log,
	})
}

// discovery is the documents of what there is.
func (s *Server) discovery() *live.Value[*discovery.Set] {
	return live.New(s.objects.Changes, func() *discovery.Set {
		return discovery.New(s.serverAddresses(), s.objects.Now().GroupVersions())
	})
}

// openAPI is the documents of what there is.
func (s *Server) openAPI(builtin *openapi.Set) *live.Value[*openapi.Set] {
	b := crdopenapi.NewBuilder(builtin)
	return live.New(s.objects.Changes, func() *openapi.Set { return builtin.With(s.custom.OpenAPI(b)...) })
}

// builtin is the endpoint of a built-in resource.
func (s *Server) builtin(group, resource string) *engine.Endpoint {
	ep, err := s.objects.Endpoint(schema.GroupResource{Group: group, Resource: resource})
	if err != nil {
		panic(err) // a name misspelled in this package
	}
	return ep
}

// callWebhook asks a conversion webhook. It is called as admission's are, but
// with no credentials.
func (s *Server) callWebhook(ctx context.Context, w *apiextensionsv1.WebhookClientConfig, request, response any) error {
	cc := &admissionv1.WebhookClientConfig{URL: w.URL, CABundle: w.CABundle}
	if r := w.Service; r != nil {
		cc.Service = &admissionv1.ServiceReference{Namespace: r.Namespace, Name: r.Name, Path: r.Path, Port: r.Port}
	}
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	answer, err := s.conversion.Post(ctx, cc, body)
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, response)
}
