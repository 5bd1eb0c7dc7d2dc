package server

import (
	"context"
	"encoding/json"
	"net/http"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/admission/plugin/ownerreferences"
	"github.com/kanzen-io/kanzen/internal/crd"
	crdopenapi "github.com/kanzen-io/kanzen/internal/crd/openapi"
	"github.com/kanzen-io/kanzen/internal/discovery"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/live"
	"github.com/kanzen-io/kanzen/internal/openapi"
	"github.com/kanzen-io/kanzen/internal/remote"
	"github.com/kanzen-io/kanzen/internal/request"
)

// This file puts the API Extensions Server beside the API Server.

func (s *Server) customResources(eng *engine.Engine) *crd.Server {
	return crd.New(crd.Config{
		Engine: eng, Store: s.store,
		Definitions: s.objects.byGR[schema.GroupResource{Group: apiextensionsv1.GroupName, Resource: "customresourcedefinitions"}],
		Builtin: func(group, resource string) bool {
			return s.objects.byGR[schema.GroupResource{Group: group, Resource: resource}] != nil
		},
		Call:    s.callWebhook,
		Metrics: crd.NewMetrics(s.metrics.Registry(), s.clock),
		Clock:   s.clock, Guard: s.guard, Log: s.log,
	})
}

// unrouted serves resource paths that are no built-in kind's. knows says that
// a group is built in.
func (s *Server) unrouted(knows func(group string) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i := request.InfoFrom(r.Context())
		switch {
		case i.Group != "" && s.custom.Owns(r.Context(), i):
			s.custom.ServeHTTP(w, r)
		case knows(i.Group):
			writeError(w, r, engine.NoPath())
		default:
			notFound(w)
		}
	})
}

// discovery is what there is, of both servers.
func (s *Server) discovery(builtin []discovery.GroupVersion) *live.Value[*discovery.Set] {
	return live.New(s.custom.Changes, func() *discovery.Set {
		return discovery.New(s.serverAddresses(), append(builtin[:len(builtin):len(builtin)], s.custom.Discovery()...))
	})
}

// openAPI is the documents of what there is.
func (s *Server) openAPI(builtin *openapi.Set) *live.Value[*openapi.Set] {
	b := crdopenapi.NewBuilder(builtin)
	return live.New(s.custom.Changes, func() *openapi.Set { return builtin.With(s.custom.OpenAPI(b)...) })
}

// resourceOf finds what a kind is served as.
func (s *Server) resourceOf(gvk schema.GroupVersionKind) ([]ownerreferences.Resource, error) {
	var out []ownerreferences.Resource
	for _, ep := range s.endpoints {
		if ep.GVK == gvk {
			out = append(out, ownerreferences.Resource{GroupVersionResource: ep.GVR, Namespaced: ep.R.Namespaced})
		}
	}
	for _, r := range s.custom.ResourceOf(gvk) {
		out = append(out, ownerreferences.Resource{GroupVersionResource: r.GroupVersionResource, Namespaced: r.Namespaced})
	}
	if len(out) == 0 {
		return nil, errNoResource("of kind " + gvk.String())
	}
	return out, nil
}

// allEndpoints are those of both servers.
func (s *Server) allEndpoints() []*engine.Endpoint {
	return append(s.endpoints[:len(s.endpoints):len(s.endpoints)], s.custom.Endpoints()...)
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
		if said := remote.Said(err); said != "" {
			s.log.Debug("a conversion webhook did not answer with a review", "error", err, "said", said)
		}
		return err
	}
	return json.Unmarshal(answer, response)
}
