package server

import (
	"context"
	mathrand "math/rand/v2"

	"github.com/google/uuid"
	discoveryv1 "k8s.io/api/discovery/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/access/authz/bootstrap"
	"github.com/kanzen-io/kanzen/internal/api/aggregator"
	"github.com/kanzen-io/kanzen/internal/api/openapi"
	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/chain/flowcontrol"
	"github.com/kanzen-io/kanzen/internal/controllers"
	"github.com/kanzen-io/kanzen/internal/controllers/allocation"
	"github.com/kanzen-io/kanzen/internal/controllers/kubernetesservice"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/process/keys"
	"github.com/kanzen-io/kanzen/internal/server/controlplane"
)

// This file wires the objects that a cluster has from its first moment, the addresses and ports of services, flow control, and controllers.

// allocation makes what hands out the addresses and ports of services.
func (b *base) allocation(ctx context.Context) (*allocation.Services, error) {
	ranges, err := b.cfg.ServiceRanges()
	if err != nil {
		return nil, err
	}
	first, last, err := b.cfg.NodePorts()
	if err != nil {
		return nil, err
	}
	s := allocation.New(b.objects.Store, b.objects, ranges, first, last, mathrand.Uint64N, b.metrics.Registry(), b.process.Clock, b.log)
	b.metrics.Register(&allocation.Collector{Addresses: s.Addresses, NodePorts: s.NodePorts})
	if b.process.Embedded() {
		// No other server uses this etcd, so allocations from before now that no
		// service has are abandoned.
		s.Repair.Abandoned, err = b.process.DB.Head(ctx)
	}
	return s, err
}

// kubernetesService makes the controller of the service kubernetes.
func (b *base) kubernetesService(eng *engine.Engine, services *allocation.Services, ready func(ctx context.Context) error) (*kubernetesservice.Controller, error) {
	address, unknown := b.process.Advertise()
	if kind := b.root.EndpointReconcilerType; unknown != nil && kind != "" && kind != "none" {
		b.log.Warn("this server will not be an endpoint of the kubernetes service", "error", unknown)
	}
	roster, err := kubernetesservice.NewRoster(b.root.EndpointReconcilerType, eng, address, b.root.APIServerCount)
	if err != nil {
		return nil, err
	}
	return kubernetesservice.New(kubernetesservice.Config{
		Client:    b.itself,
		Services:  b.builtin("", "services"),
		Endpoints: b.builtin("", "endpoints"),
		Slices:    b.builtin(discoveryv1.GroupName, "endpointslices"),
		ClusterIP: config.FirstAddress(services.Ranges[0]), NodePort: b.root.KubernetesServiceNodePort,
		Address: address, Port: b.port,
		Roster: roster, Ready: ready,
		Clock: b.process.Clock, Log: b.log,
	}), nil
}

// firstObjects makes the bootstrapper, which creates the first objects of a
// cluster.
func (b *base) firstObjects(eng *engine.Engine, k *keys.Keys, services *allocation.Services, agg *aggregator.Server, identity *controlplane.Identity, versions *controlplane.StorageVersions, steps *controlplane.Milestones, ready func(context.Context) error, policy *bootstrap.Objects) (*controlplane.Bootstrapper, error) {
	service, err := b.kubernetesService(eng, services, ready)
	if err != nil {
		return nil, err
	}
	headers, names := b.cfg.FrontProxy()
	info := &controlplane.AuthInfo{Raw: b.objects, Client: b.itself, Now: b.process.Clock.Now, Lists: map[string][]string{
		"requestheader-username-headers": headers.Username, "requestheader-uid-headers": headers.UID,
		"requestheader-group-headers": headers.Group, "requestheader-extra-headers-prefix": headers.ExtraPrefix,
		"requestheader-allowed-names": names,
	}, NoUID: b.cfg.Gates().Off(features.RemoteRequestHeaderUID)}
	if k.ClientCA != nil {
		info.ClientCA = k.ClientCA.PEM
	}
	if k.RequestHeaderCA != nil {
		info.RequestHeaderCA = k.RequestHeaderCA.PEM
	}
	first := &controlplane.DefaultRange{Raw: b.objects, Client: b.itself, Now: b.process.Clock.Now, Log: b.log}
	for _, r := range services.Ranges {
		first.CIDRs = append(first.CIDRs, r.String())
	}
	return &controlplane.Bootstrapper{
		Raw: b.objects, Client: b.itself, Milestones: steps, Range: first, APIServices: agg.Begin, Repair: services.Repair,
		Service: service, Identity: identity, StorageVersions: versions, AuthInfo: info, Policy: policy, Made: b.seams.Made, Clock: b.process.Clock, Log: b.log,
	}, nil
}

// identity makes the lease of this server. Without a flight recorder, as under the name kube-apiserver, nobody compares settings, and the
// lease is that of kube-apiserver.
func (b *base) identity() *controlplane.Identity {
	var settings map[string]string
	if b.root.FlightRecorderMemory > 0 {
		settings = controlplane.SharedSettings(b.root.Flags)
	}
	return controlplane.NewIdentity(b.objects, b.itself, b.process.Hostname(), b.root.PeerAddress(b.port), settings, b.process.Clock.Now)
}

// controllers makes the controllers of the process; secrets are those by which they sign.
func (b *base) controllers(secrets *keys.Keys, docs *openapi.Handler) controllers.Config {
	c := controllers.Config{
		Door: b.door, Endpoints: b.objects.Endpoints, Remotes: b.objects.Remotes, Gates: b.cfg.Gates(),
		RootCA: secrets.RootCA, Authority: secrets.Authority, Tokens: secrets.Legacy,
		Schema: func(kind schema.GroupVersionKind) (*spec.Schema, error) { return docs.Set().Schema(kind) },
		Store:  b.objects.Store, Catalog: b.objects.Live, Objects: b.objects, Marks: b.objects.Store, Queues: b.queues, Clock: b.process.Clock, Guard: b.guard, Log: b.log,
	}
	if !b.process.Alone() {
		c.Election = b.election("kanzen-controllers", controlplane.IdentityName(b.process.Hostname()))
	}
	if c.Gates.Enabled(features.CoordinatedLeaderElection) { // also if there is only this one: its lease is what kube-apiserver's users look at
		c.Coordinated = b.election("leader-election-controller", b.process.Hostname())
		c.Coordinated.Times = controllers.ElectionTimes{Lease: b.cfg.CoordinatedLease, Renew: b.cfg.CoordinatedRenew, Retry: b.cfg.CoordinatedRetry}
	}
	return c
}

// election returns the election of a server among those on one etcd.
func (b *base) election(name, itself string) *controllers.Election {
	return &controllers.Election{Name: name, Identity: itself + "_" + uuid.NewString(),
		Leases: b.builtin("coordination.k8s.io", "leases"), Client: b.itself, Clock: b.process.Clock, Log: b.log}
}

// flowControl makes the controller of priority and fairness and its filter, nil if requests are only counted.
func (b *base) flowControl() (*flowcontrol.Controller, chain.Filter) {
	if !b.cfg.PriorityAndFairness {
		return nil, nil
	}
	m := flowcontrol.NewMetrics(b.metrics.Registry(), b.process.Clock.Now)
	c := flowcontrol.New(b.cfg.MaxReadOnlyInFlight+b.cfg.MaxMutatingInFlight, clock.RealClock{}, b.objects.Size, m)
	return c, c.Filter(b.cfg.RequestTimeout)
}

func (b *base) flowEndpoints() (levels, schemas *engine.Endpoint) {
	const group = flowcontrolv1.GroupName
	return b.builtin(group, "prioritylevelconfigurations"), b.builtin(group, "flowschemas")
}

// flowConsumer makes the consumer that puts the stored objects of flow control
// into force.
func (b *base) flowConsumer(flow *flowcontrol.Controller, ready func()) *flowcontrol.Consumer {
	levels, schemas := b.flowEndpoints()
	return &flowcontrol.Consumer{Controller: flow, Levels: levels, Schemas: schemas, Ready: ready}
}

// dangling makes the writer of the flow schemas' condition Dangling.
func (b *base) dangling() *flowcontrol.Dangling {
	levels, schemas := b.flowEndpoints()
	return &flowcontrol.Dangling{Schemas: schemas, Levels: levels, Client: b.itself, Clock: b.process.Clock, Log: b.log}
}

// flowUpkeep makes the keeper of the flow control objects that every cluster
// has.
func (b *base) flowUpkeep() (*flowcontrol.Upkeep, error) {
	levels, schemas := b.flowEndpoints()
	u := &flowcontrol.Upkeep{Levels: levels, Schemas: schemas, Client: b.itself, Clock: b.process.Clock, Log: b.log}
	var err error
	u.WantedLevels, u.WantedSchemas, err = controlplane.FlowControl()
	return u, err
}
