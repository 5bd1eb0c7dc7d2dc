package builtin

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// This file warns users of a server alone that create workloads: nothing would happen to them, without a word.

// workers are the programs that act on a kind, by the lease that each renews in kube-system.
func workers() map[string]string {
	const manager, scheduler = "kube-controller-manager", "kube-scheduler"
	return map[string]string{
		"Deployment": manager, "ReplicaSet": manager, "StatefulSet": manager, "DaemonSet": manager, "Job": manager, "CronJob": manager,
		"Pod": scheduler,
	}
}

// unattended decides when to warn.
type unattended struct {
	objects admission.Objects
	clock   clock.PassiveClock

	mu     sync.Mutex
	warned map[string]time.Time // by kind; guarded by mu
}

var leases = schema.GroupResource{Group: coordinationv1.GroupName, Resource: "leases"}

// warnEvery is how often a kind is warned of.
const warnEvery = time.Minute

// WarnUnattended replaces the resources of workloads by ones whose rules have the warnings.
func WarnUnattended(resources []*engine.Resource, objects admission.Objects, clk clock.PassiveClock) {
	w := &unattended{objects: objects, clock: clk, warned: map[string]time.Time{}}
	for n, r := range resources {
		if worker := workers()[r.Kind]; worker != "" {
			own, warning := r.Rules.Warn, *r
			resources[n] = &warning
			warning.Rules.Warn = func(ctx context.Context, obj, old engine.Object) []string {
				var out []string
				if own != nil {
					out = own(ctx, obj, old)
				}
				if old == nil && needs(obj) && w.due(ctx, r.Kind, worker) {
					out = append(out, fmt.Sprintf("no %s runs for this %s, so that nothing will happen to it; docs/whole-cluster.md shows how to start one", worker, r.Kind))
				}
				return out
			}
		}
	}
}

// needs reports whether a program of workers acts on an object: not on pods of other schedulers, or that have a node.
func needs(obj engine.Object) bool {
	p, ok := obj.(*corev1.Pod)
	return !ok || p.Spec.NodeName == "" && p.Spec.SchedulerName == corev1.DefaultSchedulerName
}

// due reports whether to warn of a kind now: no worker was seen, and there was no warning lately. The lease of the worker may be
// read from etcd, which takes its time, so nobody else waits for that.
func (w *unattended) due(ctx context.Context, kind, worker string) bool {
	if w.lately(kind) || w.runs(ctx, worker) {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := w.clock.Now(); now.Sub(w.warned[kind]) >= warnEvery {
		w.warned[kind] = now
		return true
	}
	return false // another request was faster
}

func (w *unattended) lately(kind string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clock.Since(w.warned[kind]) < warnEvery
}

// runs reports whether a program has renewed its lease within the lease's duration.
func (w *unattended) runs(ctx context.Context, worker string) bool {
	l, err := admission.Seen[*coordinationv1.Lease](ctx, w.objects, leases, metav1.NamespaceSystem, worker)
	if err != nil || l.Spec.RenewTime == nil || l.Spec.LeaseDurationSeconds == nil {
		return false
	}
	return w.clock.Since(l.Spec.RenewTime.Time) < time.Duration(*l.Spec.LeaseDurationSeconds)*time.Second
}
