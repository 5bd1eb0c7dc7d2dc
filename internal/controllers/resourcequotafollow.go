package controllers

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/store"
)

// servedEvery is how often it is looked whether what quotas limit is served
// by now: custom resources come and go.
const servedEvery = 5 * time.Second

// follow has namespaces counted when their quotas change, or when what these
// limit is used less, until ctx ends.
func (k *quotaKeeper) follow(ctx context.Context) {
	l := &limits{keeper: k, hard: map[string]map[string]corev1.ResourceList{}, followed: map[*store.View]bool{}, anew: make(chan struct{}, 1)}
	l.running.Go(func() { _ = k.quotas.View().Follow(ctx, store.Follow{Changed: l.changed, Gone: l.gone}) })
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

// limits is what quotas limit, and who watches over it.
type limits struct {
	keeper  *quotaKeeper
	running sync.WaitGroup
	anew    chan struct{} // something else is limited than before

	mu       sync.Mutex
	hard     map[string]map[string]corev1.ResourceList // by namespace and quota
	followed map[*store.View]bool
}

// changed is told of a quota.
func (l *limits) changed(i *store.Item) {
	obj, err := l.keeper.quotas.Decode(i)
	q, ok := obj.(*corev1.ResourceQuota)
	if err != nil || !ok {
		return // one that cannot be read limits nothing
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
		l.keeper.queue.AddAfter(q.Namespace, leakAfter) // it was charged
		return
	}
	l.keeper.queue.Add(q.Namespace)
	select {
	case l.anew <- struct{}{}:
	default:
	}
}

func (l *limits) gone(i *store.Item) {
	l.mu.Lock()
	delete(l.hard[i.Namespace()], i.Name())
	if len(l.hard[i.Namespace()]) == 0 {
		delete(l.hard, i.Namespace())
	}
	l.mu.Unlock()
	l.keeper.queue.Add(i.Namespace())
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

// namespaces are those with a quota that limits a resource.
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

// followLimited begins to follow what is limited and was not, or was not served.
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
			gr := ep.GVR.GroupResource()
			_ = v.Follow(ctx, &usageFollower{l, ep, func(old, now runtime.Object) (bool, time.Duration) {
				return l.keeper.counter.Changes(ctx, gr, old, now)
			}})
			l.mu.Lock()
			delete(l.followed, v)
			l.mu.Unlock()
		})
	}
}

// usageFollower has namespaces counted where objects of one resource use less.
type usageFollower struct {
	*limits
	ep      *engine.Endpoint
	changes func(old, now runtime.Object) (changed bool, again time.Duration)
}

// Reset is part of store.Follower. What was missed may have been anything.
func (u *usageFollower) Reset([]*store.Item) {
	for _, ns := range u.namespaces(u.ep.GVR.GroupResource()) {
		u.keeper.soon(ns)
	}
}

// Change is part of store.Follower.
func (u *usageFollower) Change(e *store.Event) {
	if e.Prev == nil || !u.limited(e.Prev.Namespace(), u.ep.GVR.GroupResource()) {
		return // what is new was charged
	}
	if e.Item == nil {
		u.keeper.soon(e.Prev.Namespace())
		return
	}
	old, err := u.ep.Decode(e.Prev)
	if err != nil {
		return
	}
	now, err := u.ep.Decode(e.Item)
	if err != nil {
		return
	}
	changed, again := u.changes(old, now)
	if changed {
		u.keeper.soon(e.Item.Namespace())
	}
	if again > 0 {
		u.keeper.queue.AddAfter(e.Item.Namespace(), again)
	}
}

// Caught is part of store.Follower.
func (u *usageFollower) Caught(int64) {}
