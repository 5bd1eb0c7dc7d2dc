package server

import (
	"context"
	"fmt"
	mathrand "math/rand/v2"

	"github.com/google/uuid"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kanzen-io/kanzen/internal/access/authn"
	"github.com/kanzen-io/kanzen/internal/access/authn/methods"
	"github.com/kanzen-io/kanzen/internal/access/authn/serviceaccount"
	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/access/authz/modes"
	"github.com/kanzen-io/kanzen/internal/api/aggregator"
	"github.com/kanzen-io/kanzen/internal/api/builtin"
	"github.com/kanzen-io/kanzen/internal/api/builtin/core"
	"github.com/kanzen-io/kanzen/internal/api/builtin/rbac"
	"github.com/kanzen-io/kanzen/internal/api/builtin/resource"
	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/api/connect"
	"github.com/kanzen-io/kanzen/internal/api/crd"
	crdopenapi "github.com/kanzen-io/kanzen/internal/api/crd/openapi"
	"github.com/kanzen-io/kanzen/internal/api/discovery"
	"github.com/kanzen-io/kanzen/internal/api/openapi"
	"github.com/kanzen-io/kanzen/internal/api/peers"
	"github.com/kanzen-io/kanzen/internal/api/resolver"
	"github.com/kanzen-io/kanzen/internal/base/live"
	"github.com/kanzen-io/kanzen/internal/controllers/allocation"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/csr"
	"github.com/kanzen-io/kanzen/internal/engine/admission/policy"
	"github.com/kanzen-io/kanzen/internal/engine/admission/webhook"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/podspec"
	"github.com/kanzen-io/kanzen/internal/observe/metrics"
	"github.com/kanzen-io/kanzen/internal/process/keys"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/server/controlplane"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/wire/egress"
	"github.com/kanzen-io/kanzen/internal/wire/kubelet"
	"github.com/kanzen-io/kanzen/internal/wire/pki"
)

// This file wires what is served: the built-in kinds, custom resources, extension servers, other servers of the cluster, kubelets, and the
// documents in which all of it is.

// deps returns what the built-in kinds need from the rest of the server.
func (b *base) deps(a *modes.Set, authenticators *methods.Set, tokens *serviceaccount.TokenIssuer, services *allocation.Services) builtin.Deps {
	reviews := &authz.Reviews{Authorizer: a, Rules: a.Rules}
	d := builtin.Deps{Gates: b.cfg.Gates(), At: b.cfg.Versions(), Shared: b.process.Kinds}
	now := b.process.Clock.Now
	d.Core = core.Deps{
		Now:       now,
		NewUID:    func() types.UID { return types.UID(uuid.NewString()) },
		EventTTL:  b.cfg.EventTTL,
		Objects:   b.objects,
		Addresses: services.Addresses, NodePorts: services.NodePorts,
		CreateToken: tokens.Create,
		ComponentStatuses: func(ctx context.Context) ([]*corev1.ComponentStatus, error) {
			return controlplane.ComponentStatuses(ctx, b.objects.Store)
		},
	}
	pods := podspec.Policy{ForbidPrivileged: !b.cfg.AllowPrivileged}
	d.Core.Pods, d.Apps.Pods, d.Batch.Pods = pods, pods, pods
	access := policy.ParamAccess{Objects: b.objects, Resources: b.objects.ResourcesOf, Authorizer: a}
	d.AdmissionRegistration.MayReadParamKind, d.AdmissionRegistration.MayReadParams = access.MayReadKind, access.MayRead
	d.AdmissionRegistration.Advise = b.cfg.WebhookAdvice
	d.AdmissionRegistration.NotReviews = b.cfg.Gates().Enabled(features.ExcludeAdmissionWebhookVirtualResources)
	d.AdmissionRegistration.Manifests = b.cfg.Gates().Enabled(features.ManifestBasedAdmissionControlConfig)
	d.APIRegistration.Now, d.Certificates.Now, d.Lifecycle.Now, d.Resource.Now = now, now, now, now
	d.Certificates.MaySign = func(ctx context.Context, signer string) bool {
		return csr.MayActFor(ctx, a, request.UserFrom(ctx), "sign", signer)
	}
	d.Certificates.Issued = metrics.Issued(b.metrics.Registry())
	d.Authentication.TokenReview = authenticators.Tokens.ReviewToken
	d.Authentication.SelfSubjectReview = authn.ReviewSelf(b.process.Clock)
	d.Authorization.SubjectAccess = reviews.SubjectAccess
	d.Authorization.LocalSubjectAccess = reviews.LocalSubjectAccess
	d.Authorization.SelfSubjectAccess = reviews.SelfSubjectAccess
	d.Authorization.SelfSubjectRules = reviews.SelfSubjectRules
	d.Resource.NamespaceLabels = func(ctx context.Context, name string) (map[string]string, error) {
		return b.objects.NamespaceLabels(ctx, name)
	}
	claims := resource.Rights{Require: authz.Require(a)}
	d.Resource.MayBind, d.Resource.MayReport = claims.MayBind, claims.MayReport
	if a.Uses("RBAC") {
		d.RBAC = rbac.By(authz.Require(a), a.RBAC.Index)
	}
	return d
}

// chosen returns the choice of --runtime-config.
func (b *base) chosen() (*builtin.Chosen, error) {
	c, err := builtin.Choose(b.cfg.RuntimeConfig)
	if err != nil {
		return nil, fmt.Errorf("--runtime-config: %w", err)
	}
	c.Emulation = builtin.Emulation{Forward: b.cfg.EmulationForward, ForwardAsked: b.cfg.EmulationForwardAsked}
	if c.Removed, err = b.cfg.ServeRemoved(); err != nil {
		return nil, err
	}
	return c, nil
}

// serverAddresses returns the server's address for clients of each network.
func (b *base) serverAddresses() []metav1.ServerAddressByClientCIDR {
	host, err := b.process.Reached()
	if err != nil {
		return nil
	}
	return []metav1.ServerAddressByClientCIDR{{ClientCIDR: "0.0.0.0/0", ServerAddress: fmt.Sprintf("%s:%d", host, b.port)}}
}

// kubelets wires the requests that are passed on to kubelets, pods and services.
func (b *base) kubelets() (*kubelet.Server, error) {
	cfg := b.cfg
	return kubelet.New(kubelet.Config{
		Node: func(ctx context.Context, name string) (*corev1.Node, error) {
			return connect.Stored[*corev1.Node](ctx, b.objects, "nodes", "", name)
		},
		AddressTypes: cfg.KubeletAddressTypes, Port: int(cfg.KubeletPort),
		CAFile: cfg.KubeletCAFile, CertFile: cfg.KubeletCertFile, KeyFile: cfg.KubeletKeyFile,
		ConnectTimeout: cfg.KubeletTimeout, AnswerTimeout: cfg.RequestTimeout, BytesPerSecond: cfg.MaxConnectionBytesPerSecond,
		NoTranslation: cfg.Gates().Off(features.TranslateStreamCloseWebsocketRequests), NoTunnels: cfg.Gates().Off(features.PortForwardWebsockets),
		Dial: b.process.Egress.Dial(egress.Cluster), WriteError: engine.RefuseRequest,
		Registry: b.metrics.Registry(), Clock: b.process.Clock, Log: b.log,
	})
}

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

// aggregator makes the Aggregator Server, whose streams end when ending is closed.
func (b *base) aggregator(k *keys.Keys, custom *crd.Server, ending <-chan struct{}) *aggregator.Server {
	c := aggregator.Config{
		APIServices: b.builtin(apiregistrationv1.GroupName, "apiservices"),
		Services:    b.builtin("", "services"), Slices: b.builtin(discoveryv1.GroupName, "endpointslices"),
		Client: b.itself, Store: b.objects.Store, Catalog: b.objects.Live, Idle: b.seams.origin != nil, CustomReady: custom.Ready(), CustomComplete: custom.Complete,
		Resolver: b.resolver(), Dial: b.process.Egress.Dial(egress.Cluster),
		NoUID: b.cfg.Gates().Off(features.RemoteRequestHeaderUID), PassRedirects: !b.cfg.AggregatorRejectRedirects, Ending: ending, WriteError: engine.RefuseRequest,
		Queues: b.queues, Metrics: aggregator.NewMetrics(b.metrics.Registry()), Clock: b.process.Clock, Guard: b.guard, Log: b.log,
	}
	if k.FrontProxy != nil {
		c.Certificate = k.FrontProxy.GetClientCertificate
	}
	return aggregator.New(c)
}

// resolver finds the addresses behind services.
func (b *base) resolver() *resolver.Resolver {
	return &resolver.Resolver{Objects: b.objects, Endpoints: b.cfg.AggregatorRouting, Random: mathrand.IntN}
}

// discovery makes the discovery documents of everything served, anew after the catalog has changed.
func (b *base) discovery(agg *aggregator.Server, others peering) func() *discovery.Set {
	changes := func() int64 { return b.objects.Changes() + others.roster.Changes() }
	return live.New(changes, func() *discovery.Set {
		agg.Metrics.Aggregated()
		gvs := b.objects.Now().GroupVersions()
		if b.cfg.Gates().Off(features.StorageVersionHash) {
			gvs = discovery.Unhashed(gvs)
		}
		return others.roster.Documents(discovery.New(b.serverAddresses(), gvs))
	}).Get
}

// openAPI makes the OpenAPI documents of everything served; own are resources that are neither custom nor in the recorded documents.
func (b *base) openAPI(agg *aggregator.Server, own []*engine.Resource) (*openapi.Handler, error) {
	docs, err := openapi.New(b.process.Clock.Now(), openapi.Served{
		Version: b.cfg.Versions().Emulated.String(), Resources: b.objects.Now().Documented(), NoEnums: b.cfg.Gates().Off(features.OpenAPIEnums),
	})
	if err != nil {
		return nil, err
	}
	if b.cfg.Gates().Enabled(features.CBORServingAndStorage) {
		docs = docs.WithCBOR()
	}
	docs = docs.WithExtensions(b.cfg.Extensions().Names())
	return crdopenapi.All(docs, b.objects.Live, agg, own, b.process.Clock.Now(), b.log), nil
}

// peering is how this server and the others pass requests to each other.
type peering struct {
	address *peers.Leases // nil: the others do not reach this one
	roster  *peers.Roster // nil: nothing is passed on to the others
}

// peers makes the peering. Streams through it end when ending is closed.
func (b *base) peers(eng *engine.Engine, k *keys.Keys, ending <-chan struct{}) (p peering, err error) {
	address, name := b.root.PeerAddress(b.port), controlplane.IdentityName(b.process.Hostname())
	var authorities *pki.BundleFile
	if file := b.root.PeerCAFile; file != "" { // a wrong one is an error although there may be nobody to trust
		if authorities, err = pki.NewBundleFile(file, b.process.Clock, b.log); err != nil {
			return peering{}, fmt.Errorf("--peer-ca-file: %w", err)
		}
	}
	if address == "" && authorities == nil || b.process.Embedded() && len(b.root.EtcdListenClients) == 0 {
		return peering{}, nil // the only server of its cluster
	}
	addresses, err := peers.NewLeases(eng, name, address)
	if err != nil {
		return peering{}, err
	}
	if address != "" {
		p.address = addresses
	}
	if authorities == nil {
		return p, nil
	}
	p.roster = peers.New(peers.Config{
		Server: name, Addresses: addresses,
		Identities:  catalog.Index[*coordinationv1.Lease](b.objects.Live, schema.GroupResource{Group: coordinationv1.GroupName, Resource: "leases"}),
		APIServices: catalog.Index[*apiregistrationv1.APIService](b.objects.Live, schema.GroupResource{Group: apiregistrationv1.GroupName, Resource: "apiservices"}),
		TLS:         peers.TLS(authorities.Pool, k.FrontProxy.GetClientCertificate), Dial: b.process.Egress.Dial(egress.ControlPlane),
		Ending: ending, WriteError: engine.RefuseRequest, Random: mathrand.IntN,
		Metrics: peers.NewMetrics(b.metrics.Registry()), Queues: b.queues, Clock: b.process.Clock, Guard: b.guard, Log: b.log,
	})
	b.objects.Live.Elsewhere(p.roster.Serve)
	return p, nil
}
