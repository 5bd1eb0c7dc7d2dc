package controllers

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/store"
)

// servedEvery is the interval of checking which limited resources are served:
// custom resources come and go.
const servedEvery = 5 * time.Second

// follow queues namespaces when their quotas change, or when the usage of a
// limited resource is reduced, until ctx ends.
func (k *quotaKeeper) follow(ctx context.Context) {
	l := &limits{keeper: k, hard: map[string]map[string]corev1.ResourceList{}, followed: map[*store.View]bool{}, anew: make(chan struct{}, 1), remoteAnew: make(chan struct{}, 1)}
	l.running.Go(func() { l.followRemotes(ctx) })
	l.running.Go(func() { engine.IndexOf[*corev1.ResourceQuota](k.quotas).Follow(ctx, l.changed, nil) })
	tick := k.Clock.NewTicker(servedEvery)
	defer tick.Stop()
	for {
		l.followLimited(ctx)
		select {
		case <-tick.C():
		case <-l.anew:
		case <-ctx.Done():
			l.running.Wait()
			return
		}
	}
}

// limits has the resources that quotas limit, and the followers of those
// resources.
type limits struct {
	keeper  *quotaKeeper
	running sync.WaitGroup
	// The limited resources have changed: for those of this server, and those of extension servers.
	anew, remoteAnew chan struct{}

	mu       sync.Mutex
	hard     map[string]map[string]corev1.ResourceList // by namespace and quota
	followed map[*store.View]bool
}

// changed takes a change of a quota. A quota that cannot be decoded keeps its
// limits.
func (l *limits) changed(c store.Change[*corev1.ResourceQuota]) {
	if c.Gone {
		l.gone(c.Namespace(), c.Name())
		return
	}
	q := c.Now
	if c.Err != nil {
		return
	}
	l.mu.Lock()
	of := l.hard[q.Namespace]
	if of == nil {
		of = map[string]corev1.ResourceList{}
		l.hard[q.Namespace] = of
	}
	before, known := of[q.Name]
	of[q.Name] = q.Spec.Hard
	l.mu.Unlock()
	if known && equality.Semantic.DeepEqual(before, q.Spec.Hard) && equality.Semantic.DeepEqual(q.Spec.Hard, q.Status.Hard) {
		l.keeper.queue.AddAfter(q.Namespace, leakAfter) // the change may be a charge
		return
	}
	l.keeper.queue.Add(q.Namespace)
	for _, anew := range []chan struct{}{l.anew, l.remoteAnew} {
		select {
		case anew <- struct{}{}:
		default:
		}
	}
}

func (l *limits) gone(namespace, name string) {
	l.mu.Lock()
	delete(l.hard[namespace], name)
	if len(l.hard[namespace]) == 0 {
		delete(l.hard, namespace)
	}
	l.mu.Unlock()
	l.keeper.queue.Add(namespace)
	select {
	case l.remoteAnew <- struct{}{}:
	default:
	}
}

// limited says whether a quota of a namespace limits a resource.
func (l *limits) limited(namespace string, gr schema.GroupResource) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, hard := range l.hard[namespace] {
		if l.keeper.counter.Measures(gr, hard) {
			return true
		}
	}
	return false
}

// namespaces returns the namespaces with a quota that limits a resource.
func (l *limits) namespaces(gr schema.GroupResource) (names []string) {
	l.mu.Lock()
	all := make([]string, 0, len(l.hard))
	for ns := range l.hard {
		all = append(all, ns)
	}
	l.mu.Unlock()
	for _, ns := range all {
		if l.limited(ns, gr) {
			names = append(names, ns)
		}
	}
	return names
}

// followLimited starts to follow resources that are newly limited or newly
// served.
func (l *limits) followLimited(ctx context.Context) {
	for _, ep := range l.keeper.metered() {
		v := ep.View()
		l.mu.Lock()
		done := l.followed[v]
		l.mu.Unlock()
		if done || len(l.namespaces(ep.GVR.GroupResource())) == 0 {
			continue
		}
		l.mu.Lock()
		l.followed[v] = true
		l.mu.Unlock()
		l.running.Go(func() {
			l.follow(ctx, ep)
			l.mu.Lock()
			delete(l.followed, v)
			l.mu.Unlock()
		})
	}
}

// follow queues namespaces in which objects of one resource use less, until ctx
// ends or the resource is no longer served.
func (l *limits) follow(ctx context.Context, ep *engine.Endpoint) {
	gr := ep.GVR.GroupResource()
	for _, ns := range l.namespaces(gr) {
		l.keeper.soon(ns) // the missed events may have changed its usage
	}
	engine.IndexOf[engine.Object](ep).Follow(ctx, func(c store.Change[engine.Object]) {
		if c.Added() || !l.limited(c.Namespace(), gr) {
			return // new objects were charged
		}
		old, known := c.Was(ctx)
		if c.Gone || !known || c.Err != nil {
			l.keeper.soon(c.Namespace())
			return
		}
		changed, again := l.keeper.counter.Changes(ctx, gr, old, c.Now)
		if changed {
			l.keeper.soon(c.Namespace())
		}
		if again > 0 {
			l.keeper.queue.AddAfter(c.Namespace(), again)
		}
	}, nil)
}
