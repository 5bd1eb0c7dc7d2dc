package controlplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kanzen-io/kanzen/internal/chain/debug"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/store"
	"k8s.io/utils/clock"
)

// Milestone is a step of the startup.
type Milestone struct{ done atomic.Bool }

// Set marks the step as done.
func (m *Milestone) Set() { m.done.Store(true) }

// SetAfter returns what sets it when ready is closed.
func (m *Milestone) SetAfter(ready <-chan struct{}) func(ctx context.Context) {
	return func(ctx context.Context) {
		select {
		case <-ready:
			m.Set()
		case <-ctx.Done():
		}
	}
}

func (m *Milestone) test(context.Context) error {
	if m.done.Load() {
		return nil
	}
	return errors.New("not finished")
}

// Milestones are the steps of the startup.
type Milestones struct {
	namespaces, roles, priorityClasses, flowControl, kubernetesService, serviceCIDR, authenticationInfo, identity, leaseCollection, serviceRepair, tokenTracking, storageVersions Milestone
	// Other components set these.
	FlowConsumer, Authorizer, Definitions Milestone
}

// Reach sets all steps of the Bootstrapper.
func (m *Milestones) Reach() {
	for _, step := range []*Milestone{&m.namespaces, &m.roles, &m.priorityClasses, &m.flowControl, &m.kubernetesService, &m.serviceCIDR, &m.authenticationInfo,
		&m.identity, &m.leaseCollection, &m.serviceRepair, &m.tokenTracking, &m.storageVersions} {
		step.Set()
	}
}

// EtcdTimeouts bound the checks of etcd.
type EtcdTimeouts struct{ Health, Ready time.Duration }

// Health returns the checks of a server, with kube-apiserver's names for the same steps. m is set during the startup;
// stopping is closed when the shutdown begins; others are the steps of other components.
func Health(log *slog.Logger, st *store.Cluster, m *Milestones, stopping <-chan struct{}, checked func(name, kind string, ok bool), clk clock.PassiveClock, livezGrace time.Duration, timeouts EtcdTimeouts, others ...debug.Check) *debug.Health {
	within := func(limit time.Duration, test func(ctx context.Context) error) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			return test(ctx)
		}
	}
	all := st.All()
	etcd := all[0]
	common := []debug.Check{{Name: "ping", Test: ok}, {Name: "log", Test: ok}, {Name: "etcd", Test: within(timeouts.Health, etcd.Ping)}}
	// Writable is not among the checks of /livez: a restart makes no room.
	ready := []debug.Check{{Name: "etcd-readiness", Test: within(timeouts.Ready, etcd.Ping)}, {Name: "etcd-writable", Test: within(timeouts.Ready, etcd.Writable)}}
	for n, other := range all[1:] {
		common = append(common, debug.Check{Name: fmt.Sprintf("etcd-override-%d", n), Group: "etcd", Test: within(timeouts.Health, other.Ping)})
		ready = append(ready, debug.Check{Name: fmt.Sprintf("etcd-override-readiness-%d", n), Group: "etcd-readiness", Test: within(timeouts.Ready, other.Ping)},
			debug.Check{Name: fmt.Sprintf("etcd-override-writable-%d", n), Group: "etcd-writable", Test: within(timeouts.Ready, other.Writable)})
	}
	started := append(m.checks(st), others...)
	// kube-apiserver's own certificate for requests to itself can expire. Here such requests need no socket, so no certificate.
	alive := slices.Insert(slices.Clone(common), 2, debug.Check{Name: "loopback-serving-certificate", Test: ok})
	h := &debug.Health{Log: log, Checked: checked}
	h.Healthz = append(append(h.Healthz, alive...), started...)
	h.Live = append(h.Live, alive...)
	for _, c := range started {
		// A failing /livez restarts the server, so it allows for the startup time.
		h.Live = append(h.Live, c.After(clk.Now().Add(livezGrace), clk))
	}
	h.Ready = append(h.Ready, common...)
	h.Ready = append(h.Ready, ready...)
	h.Ready = append(h.Ready, debug.Check{Name: "informer-sync", Test: m.Authorizer.test})
	h.Ready = append(h.Ready, started...)
	h.Ready = append(h.Ready, debug.Check{Name: "shutdown", Test: func(context.Context) error {
		select {
		case <-stopping:
			return errors.New("process is shutting down")
		default:
			return nil
		}
	}})
	return h
}

func ok(context.Context) error { return nil }

// checks returns the checks of the steps, in kube-apiserver's order. Clients and monitors look for its names, so each of them is
// there and is answered by the step that stands for it here.
func (m *Milestones) checks(st *store.Cluster) []debug.Check {
	followed := func(context.Context) error {
		for _, s := range st.All() {
			if s.Revision() == 0 {
				return errors.New("the log is not followed yet")
			}
		}
		return nil
	}
	return []debug.Check{
		// Admission and authorizers read views of the one log, where kube-apiserver starts informers for them.
		{Name: "poststarthook/start-apiserver-admission-initializer", Test: m.Authorizer.test},
		{Name: "poststarthook/generic-apiserver-start-informers", Test: m.Authorizer.test},
		{Name: "poststarthook/priority-and-fairness-config-consumer", Test: m.FlowConsumer.test},
		{Name: "poststarthook/priority-and-fairness-filter", Test: ok},
		{Name: "poststarthook/storage-object-count-tracker-hook", Test: followed}, // views know how many objects they have
		{Name: "poststarthook/start-apiextensions-informers", Test: m.Definitions.test},
		{Name: "poststarthook/start-apiextensions-controllers", Test: m.Definitions.test}, // they run once the definitions are read
		{Name: "poststarthook/crd-informer-synced", Test: m.Definitions.test},
		{Name: "poststarthook/start-system-namespaces-controller", Test: m.namespaces.test},
		{Name: "poststarthook/start-cluster-authentication-info-controller", Test: m.authenticationInfo.test},
		{Name: "poststarthook/start-kube-apiserver-identity-lease-controller", Test: m.identity.test},
		{Name: "poststarthook/start-kube-apiserver-identity-lease-garbage-collector", Test: m.leaseCollection.test},
		{Name: "poststarthook/storage-readiness", Test: followed}, // views are loaded when they are first read
		{Name: "poststarthook/start-legacy-token-tracking-controller", Test: m.tokenTracking.test},
		{Name: "poststarthook/start-service-ip-repair-controllers", Test: m.serviceRepair.test},
		{Name: "poststarthook/rbac/bootstrap-roles", Test: m.roles.test},
		{Name: "poststarthook/scheduling/bootstrap-system-priority-classes", Test: m.priorityClasses.test},
		{Name: "poststarthook/priority-and-fairness-config-producer", Test: m.flowControl.test},
		{Name: "poststarthook/bootstrap-controller", Test: m.kubernetesService.test},
		{Name: "poststarthook/start-kubernetes-service-cidr-controller", Test: m.serviceCIDR.test},
	}
}

// Gated returns the checks that are there if their features are on.
func (m *Milestones) Gated(gates features.Set) (out []debug.Check) {
	if gates.Enabled(features.UnknownVersionInteroperabilityProxy) {
		out = append(out, debug.Check{Name: "poststarthook/peer-endpoint-reconciler-controller", Test: ok}) // it waits for the others
	}
	if gates.Enabled(features.StorageVersionAPI) && gates.Enabled(features.APIServerIdentity) {
		out = append(out, debug.Check{Name: "poststarthook/built-in-resources-storage-version-updater", Test: m.storageVersions.test})
	}
	if gates.Enabled(features.CoordinatedLeaderElection) {
		out = append(out, debug.Check{Name: "poststarthook/start-kube-apiserver-coordinated-leader-election-controller", Test: ok}) // it waits for nothing
	}
	return out
}
