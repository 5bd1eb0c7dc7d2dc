package server

import (
	mathrand "math/rand/v2"
	"slices"
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kanzen-io/kanzen/internal/api/aggregator"
	"github.com/kanzen-io/kanzen/internal/api/crd"
	crdopenapi "github.com/kanzen-io/kanzen/internal/api/crd/openapi"
	"github.com/kanzen-io/kanzen/internal/api/discovery"
	"github.com/kanzen-io/kanzen/internal/api/openapi"
	"github.com/kanzen-io/kanzen/internal/api/resolver"
	"github.com/kanzen-io/kanzen/internal/base/live"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/process/keys"
	"github.com/kanzen-io/kanzen/internal/wire/egress"
)

// This file puts the Aggregator Server in front of the other servers, and makes the discovery and OpenAPI documents in
// which all of them are merged.

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
		return others.documents(discovery.New(b.serverAddresses(), gvs))
	}).Get
}

// openAPI makes the OpenAPI documents of everything served. Those of extension servers come first, because they hide
// custom resources. own are resources that are neither custom nor in the recorded documents; they are described when somebody
// asks for a document.
func (b *base) openAPI(agg *aggregator.Server, own []*engine.Resource) (*openapi.Handler, error) {
	docs, err := openapi.New(b.process.Clock.Now(), openapi.Served{
		Version: b.cfg.Versions().Emulated.String(), Resources: b.documented(), NoEnums: b.cfg.Gates().Off(features.OpenAPIEnums),
	})
	if err != nil {
		return nil, err
	}
	if b.cfg.Gates().Enabled(features.CBORServingAndStorage) {
		docs = docs.WithCBOR()
	}
	docs = docs.WithExtensions(b.cfg.Extensions().Names())
	builder := crdopenapi.NewBuilder(docs)
	started := b.process.Clock.Now()
	first := sync.OnceValue(func() []openapi.Part {
		parts, err := builder.Derived(started, own)
		if err != nil {
			b.log.Error("the server's own kinds have no OpenAPI document", "error", err)
		}
		return parts
	})
	changes := func() int64 { return b.objects.Changes() + agg.DocumentChanges() }
	all := live.New(changes, func() *openapi.Set {
		return docs.With(slices.Concat(first(), agg.OpenAPI(), builder.Parts(b.objects.Now()))...)
	})
	return openapi.NewHandler(all.Get, b.log), nil
}

// documented returns the built-in resources that are served and their subresources, by the paths of their documents.
func (b *base) documented() map[string][]string {
	all := map[string][]string{}
	for _, gv := range b.objects.Now().GroupVersions() {
		if gv.Remote != nil {
			continue
		}
		path := "apis/" + gv.GroupVersion.String()
		if gv.Group == "" {
			path = "api/" + gv.Version
		}
		for _, r := range gv.Resources() {
			all[path] = append(all[path], r.Plural)
			for _, s := range r.Subresources {
				all[path] = append(all[path], r.Plural+"/"+s.Name)
			}
		}
	}
	return all
}
