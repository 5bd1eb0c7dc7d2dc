package server

import (
	"context"
	"fmt"
	"net/http"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/admission"
	"github.com/kanzen-io/kanzen/internal/admission/measure"
	"github.com/kanzen-io/kanzen/internal/admission/plugin"
	"github.com/kanzen-io/kanzen/internal/admission/policy"
	"github.com/kanzen-io/kanzen/internal/admission/webhook"
	"github.com/kanzen-io/kanzen/internal/authz"
	"github.com/kanzen-io/kanzen/internal/catalog"
	"github.com/kanzen-io/kanzen/internal/cel"
	"github.com/kanzen-io/kanzen/internal/egress"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/metrics"
)

// admission is the chain of plugins, in order.
func (s *Server) admission(a authz.Authorizer, m *metrics.Metrics) (engine.Admission, error) {
	d := plugin.Deps{
		Objects: s.objects, Authorizer: a, Resources: s.objects.ResourcesOf, NameSuffix: nameSuffix, Clock: s.clock,
		CreateNamespace: s.createNamespace,
		NotReadySeconds: s.cfg.NotReadySeconds, UnreachableSeconds: s.cfg.UnreachableSeconds,
		Others: map[string]admission.Plugin{},
	}
	if file := s.cfg.AdmissionConfigFile; file != "" {
		var err error
		if d.Config, err = plugin.ReadConfig(file); err != nil {
			return nil, fmt.Errorf("--admission-control-config-file: %w", err)
		}
	}
	measures := measure.New()
	m.Register(measures.Collectors()...)
	s.conversion = s.clients(webhook.Credentials{})
	compiler := cel.NewCompiler()
	if err := s.webhooks(&d, compiler, measures); err != nil {
		return nil, err
	}
	s.policies(&d, compiler, measures)
	chain, err := plugin.Chain(d, s.cfg.EnableAdmission, s.cfg.DisableAdmission)
	if err != nil {
		return nil, err
	}
	return measures.Chain(chain, s.clock), nil
}

// webhooks makes the two plugins that ask webhooks.
func (s *Server) webhooks(d *plugin.Deps, c *cel.Compiler, m *measure.Metrics) error {
	w := webhook.Deps{
		Mutating: s.registered("mutatingwebhookconfigurations"), Validating: s.registered("validatingwebhookconfigurations"),
		Namespaces: s.objects, Authorizer: d.Authorizer, Compiler: c, Metrics: m,
		NewUID: func() types.UID { return types.UID(uuid.NewString()) },
		Clock:  s.clock, Log: s.log,
	}
	for name, make := range map[string]func(webhook.Deps) admission.Plugin{
		webhook.MutatingName: webhook.Mutating, webhook.ValidatingName: webhook.Validating,
	} {
		credentials, err := webhook.ReadCredentials(d.Config[name])
		if err != nil {
			return fmt.Errorf("configuration of %s: %w", name, err)
		}
		w.Clients = s.clients(credentials)
		d.Others[name] = make(w)
	}
	return nil
}

// clients connect to webhooks.
func (s *Server) clients(c webhook.Credentials) *webhook.Clients {
	d := webhook.Dialers{Services: s.egress.Dial(egress.Cluster), URLs: s.egress.Dial(egress.ControlPlane)}
	return webhook.NewClients(c, d, s.resolver(), lateTransport(func() http.RoundTripper { return s.Transport(itself) }))
}

// policies makes the two plugins that evaluate policies.
func (s *Server) policies(d *plugin.Deps, c *cel.Compiler, m *measure.Metrics) {
	p := policy.Deps{
		ValidatingPolicies: s.registered("validatingadmissionpolicies"), ValidatingBindings: s.registered("validatingadmissionpolicybindings"),
		MutatingPolicies: s.registered("mutatingadmissionpolicies"), MutatingBindings: s.registered("mutatingadmissionpolicybindings"),
		Params: catalog.Params{Raw: s.objects}, Namespaces: s.objects, Authorizer: d.Authorizer, Compiler: c, Metrics: m, Log: s.log,
	}
	d.Others[policy.ValidatingName], d.Others[policy.MutatingName] = policy.Validating(p), policy.Mutating(p)
}

// lateTransport is a transport to a server that is still being put together.
type lateTransport func() http.RoundTripper

// RoundTrip is part of http.RoundTripper.
func (t lateTransport) RoundTrip(r *http.Request) (*http.Response, error) { return t().RoundTrip(r) }

// registered is the stored objects of one of the resources by which admission
// is configured.
func (s *Server) registered(resource string) registered {
	return registered{s.objects, schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: resource}}
}

type registered struct {
	objects *catalog.Raw
	gr      schema.GroupResource
}

// Changed is the revision of the newest change.
func (r registered) Changed(ctx context.Context) (int64, error) {
	v, err := r.objects.View(r.gr)
	if err != nil {
		return 0, err
	}
	return v.Changed(ctx)
}

// Objects are the objects in the order of their names.
func (r registered) Objects(ctx context.Context) ([]admission.Object, error) {
	return r.objects.SeenList(ctx, r.gr, "")
}
