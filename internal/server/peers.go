package server

import (
	"context"
	"fmt"
	mathrand "math/rand/v2"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/api/discovery"
	"github.com/kanzen-io/kanzen/internal/api/peers"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/process/keys"
	"github.com/kanzen-io/kanzen/internal/server/controlplane"
	"github.com/kanzen-io/kanzen/internal/wire/egress"
	"github.com/kanzen-io/kanzen/internal/wire/pki"
)

// This file wires what this server has to do with the other API servers of its cluster.

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

// keepPeering tells the others the address of this server from when it is ready until ctx ends.
func (b *base) keepPeering(ctx context.Context, p peering, notReady func(context.Context) error) {
	if p.address != nil {
		p.address.Keep(ctx, notReady, b.process.Clock, b.log)
	}
}

// documents adds what the other servers serve to the discovery documents of this one.
func (p peering) documents(own *discovery.Set) *discovery.Set {
	if p.roster == nil {
		return own
	}
	return own.With(p.roster)
}
