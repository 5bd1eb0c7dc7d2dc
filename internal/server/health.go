package server

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/kanzen-io/kanzen/internal/debug"
	"github.com/kanzen-io/kanzen/internal/store"
	"k8s.io/utils/clock"
)

// milestone is a step of starting up that is done once.
type milestone struct{ done atomic.Bool }

func (m *milestone) set() { m.done.Store(true) }

func (m *milestone) test(context.Context) error {
	if m.done.Load() {
		return nil
	}
	return errors.New("not finished")
}

// milestones are the steps of starting up.
type milestones struct {
	namespaces, roles, priorityClasses, flowControl, flowConsumer, kubernetesService, serviceCIDR, authenticationInfo, identity, tokenTracking, authorizer, definitions milestone
}

// etcdTimeout bounds the question whether etcd is there.
const etcdTimeout = 2 * time.Second

func newHealth(log *slog.Logger, st *store.Store, m *milestones, stopping <-chan struct{}, checked func(name, kind string, ok bool), clk clock.PassiveClock, livezGrace time.Duration) *debug.Health {
	etcd := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
		defer cancel()
		return st.Ping(ctx)
	}
	ok := func(context.Context) error { return nil }
	common := []debug.Check{{Name: "ping", Test: ok}, {Name: "log", Test: ok}, {Name: "etcd", Test: etcd}}
	// Names are kube-apiserver's for the same steps.
	started := []debug.Check{
		{Name: "poststarthook/start-system-namespaces-controller", Test: m.namespaces.test},
		{Name: "poststarthook/rbac/bootstrap-roles", Test: m.roles.test},
		{Name: "poststarthook/scheduling/bootstrap-system-priority-classes", Test: m.priorityClasses.test},
		{Name: "poststarthook/priority-and-fairness-config-producer", Test: m.flowControl.test},
		{Name: "poststarthook/priority-and-fairness-config-consumer", Test: m.flowConsumer.test},
		{Name: "poststarthook/priority-and-fairness-filter", Test: ok},
		{Name: "poststarthook/bootstrap-controller", Test: m.kubernetesService.test},
		{Name: "poststarthook/start-kubernetes-service-cidr-controller", Test: m.serviceCIDR.test},
		{Name: "poststarthook/start-cluster-authentication-info-controller", Test: m.authenticationInfo.test},
		{Name: "poststarthook/start-kube-apiserver-identity-lease-controller", Test: m.identity.test},
		{Name: "poststarthook/start-legacy-token-tracking-controller", Test: m.tokenTracking.test},
		{Name: "poststarthook/crd-informer-synced", Test: m.definitions.test},
	}
	h := &debug.Health{Log: log, Checked: checked}
	h.Healthz = append(append(h.Healthz, common...), started...)
	h.Live = append(h.Live, common...)
	for _, c := range started {
		// Who restarts what is not alive is to be patient while it starts up.
		h.Live = append(h.Live, c.After(clk.Now().Add(livezGrace), clk))
	}
	h.Ready = append(h.Ready, common...)
	h.Ready = append(h.Ready, debug.Check{Name: "etcd-readiness", Test: etcd}, debug.Check{Name: "informer-sync", Test: m.authorizer.test})
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
