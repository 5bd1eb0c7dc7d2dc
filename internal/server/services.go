package server

import (
	"context"
	mathrand "math/rand/v2"
	"net"

	"github.com/google/uuid"
	"github.com/kanzen-io/kanzen/internal/access/authz/bootstrap"
	"github.com/kanzen-io/kanzen/internal/api/aggregator"
	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/controllers"
	"github.com/kanzen-io/kanzen/internal/controllers/allocation"
	"github.com/kanzen-io/kanzen/internal/controllers/kubernetesservice"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/process/keys"
	"github.com/kanzen-io/kanzen/internal/server/controlplane"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// This file wires the addresses and ports of services, the service by which pods
// reach the API, and the objects that a cluster has from its first moment.

// services hand out the addresses and ports of services.
type services struct {
	ranges    []*net.IPNet
	addresses *allocation.Addresses
	nodePorts *allocation.NodePorts
	repair    *allocation.Repair
}

func (b *base) allocation(ctx context.Context) (*services, error) {
	ranges, err := b.cfg.ServiceRanges()
	if err != nil {
		return nil, err
	}
	var families []corev1.IPFamily
	for _, r := range ranges {
		f := corev1.IPv4Protocol
		if r.IP.To4() == nil {
			f = corev1.IPv6Protocol
		}
		families = append(families, f)
	}
	first, last, err := b.cfg.NodePorts()
	if err != nil {
		return nil, err
	}
	addresses := allocation.NewAddresses(b.objects, families, mathrand.Uint64N, b.process.Clock)
	nodePorts := allocation.NewNodePorts(b.objects.Store, b.objects, first, last, mathrand.Uint64N)
	addresses.Metrics = allocation.NewMetrics(b.metrics.Registry())
	nodePorts.Metrics = addresses.Metrics
	b.metrics.Register(&allocation.Collector{Addresses: addresses, NodePorts: nodePorts})
	repair := allocation.NewRepair(addresses, nodePorts, b.process.Clock, b.log)
	if b.process.Embedded() {
		// No other server uses this etcd, so allocations from before now that no
		// service has are abandoned.
		repair.Abandoned, err = b.process.DB.Head(ctx)
	}
	return &services{ranges, addresses, nodePorts, repair}, err
}

// kubernetesService makes the controller of the service kubernetes.
func (b *base) kubernetesService(eng *engine.Engine, services *services, ready func(ctx context.Context) error) (*kubernetesservice.Controller, error) {
	var roster kubernetesservice.Roster
	address, err := b.process.Advertise()
	switch kind := b.root.EndpointReconcilerType; {
	case kind == "" || kind == "none":
	case err != nil:
		b.log.Warn("this server will not be an endpoint of the kubernetes service", "error", err)
	case address.IsLoopback(): // endpoints must not have loopback addresses
	case kind == "lease":
		if roster, err = kubernetesservice.NewLeases(eng, address); err != nil {
			return nil, err
		}
	case kind == "master-count":
		roster = kubernetesservice.NewCount(b.root.APIServerCount, address)
	}
	return kubernetesservice.New(kubernetesservice.Config{
		Client:    b.itself,
		Services:  b.builtin("", "services"),
		Endpoints: b.builtin("", "endpoints"),
		Slices:    b.builtin(discoveryv1.GroupName, "endpointslices"),
		ClusterIP: config.FirstAddress(services.ranges[0]), NodePort: b.root.KubernetesServiceNodePort,
		Address: address, Port: b.port,
		Roster: roster, Ready: ready,
		Clock: b.process.Clock, Log: b.log,
	}), nil
}

// firstObjects makes the bootstrapper, which creates the first objects of a
// cluster.
func (b *base) firstObjects(eng *engine.Engine, k *keys.Keys, services *services, agg *aggregator.Server, identity *controlplane.Identity, steps *controlplane.Milestones, ready func(context.Context) error, policy *bootstrap.Objects) (*controlplane.Bootstrapper, error) {
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
	return &controlplane.Bootstrapper{
		Raw: b.objects, Client: b.itself, Milestones: steps, Range: b.defaultRange(services), APIServices: agg.Begin, Repair: services.repair,
		Service: service, Identity: identity, AuthInfo: info, Policy: policy, Made: b.seams.Made, Clock: b.process.Clock, Log: b.log,
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

// storageVersions tells others how this server stores resources, and untold what it has not told yet; nil: the gate is off.
func (b *base) storageVersions(resources []*engine.Resource, serves func(schema.GroupVersionResource) bool) (*controlplane.StorageVersions, chain.Untold) {
	if gates := b.cfg.Gates(); !gates.Enabled(features.StorageVersionAPI) || !gates.Enabled(features.APIServerIdentity) {
		return nil, nil
	}
	v := &controlplane.StorageVersions{
		Raw: b.objects, Client: b.itself, Server: controlplane.IdentityName(b.process.Hostname()), Resources: resources, Serves: serves, Now: b.process.Clock.Now,
	}
	v.Expect()
	return v, v.Untold
}

func (b *base) defaultRange(services *services) *controlplane.DefaultRange {
	d := &controlplane.DefaultRange{Raw: b.objects, Client: b.itself, Now: b.process.Clock.Now, Log: b.log}
	for _, r := range services.ranges {
		d.CIDRs = append(d.CIDRs, r.String())
	}
	return d
}

// election returns the election of the server that runs the controllers, among
// the servers on one etcd; nil if there is only this one.
func (b *base) election() *controllers.Election {
	if b.process.Embedded() {
		return nil
	}
	return &controllers.Election{
		Name: "kanzen-controllers", Identity: controlplane.IdentityName(b.process.Hostname()) + "_" + uuid.NewString(),
		Leases: b.builtin("coordination.k8s.io", "leases"), Client: b.itself, Clock: b.process.Clock, Log: b.log,
	}
}

// coordinatedElection returns the election of the server that elects the leaders of others, also if there is only this one: its
// lease is what kube-apiserver's users look at.
func (b *base) coordinatedElection() *controllers.Election {
	return &controllers.Election{
		Name: "leader-election-controller", Identity: b.process.Hostname() + "_" + uuid.NewString(),
		Leases: b.builtin("coordination.k8s.io", "leases"), Client: b.itself, Clock: b.process.Clock, Log: b.log,
		Times: controllers.ElectionTimes{Lease: b.cfg.CoordinatedLease, Renew: b.cfg.CoordinatedRenew, Retry: b.cfg.CoordinatedRetry},
	}
}
