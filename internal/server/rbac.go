package server

import (
	"context"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/authz"
	"github.com/kanzen-io/kanzen/internal/authz/rbac"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/store"
)

// feed keeps the authorizer's index as the views of roles and bindings are.
type feed struct {
	index *rbac.Index
	ready chan struct{} // closed when all four views have been read once
}

func newFeed() *feed { return &feed{index: rbac.NewIndex(), ready: make(chan struct{})} }

// Authorize is part of authz.Authorizer. Until the roles have been read nobody
// can be refused anything: clients take that for the truth, and drop what they
// were about to resume. So requests for resources wait. Others do not, because
// health must be answered, one way or the other, while etcd is not there.
func (f *feed) Authorize(ctx context.Context, a *authz.Attributes) (authz.Decision, string, error) {
	if a.IsResource {
		select {
		case <-f.ready:
		case <-ctx.Done():
			return authz.NoOpinion, "", ctx.Err()
		}
	}
	return f.index.Authorize(ctx, a)
}

// run follows the views until ctx ends.
func (f *feed) run(ctx context.Context, o *objects) {
	var all, first sync.WaitGroup
	follow := func(resource string, set func(engine.Object), remove func(namespace, name string)) {
		ep := o.byGR[schema.GroupResource{Group: rbacv1.GroupName, Resource: resource}]
		all.Add(1)
		first.Add(1)
		go func() {
			defer all.Done()
			r := &rbacFollower{ep: ep, set: set, remove: remove, caught: sync.OnceFunc(first.Done)}
			defer r.caught()
			_ = ep.View().Follow(ctx, r)
		}()
	}
	x := f.index
	follow("roles", func(o engine.Object) { x.SetRole(o.(*rbacv1.Role)) }, x.DeleteRole)
	follow("clusterroles", func(o engine.Object) { x.SetClusterRole(o.(*rbacv1.ClusterRole)) },
		func(_, name string) { x.DeleteClusterRole(name) })
	follow("rolebindings", func(o engine.Object) { x.SetRoleBinding(o.(*rbacv1.RoleBinding)) }, x.DeleteRoleBinding)
	follow("clusterrolebindings", func(o engine.Object) { x.SetClusterRoleBinding(o.(*rbacv1.ClusterRoleBinding)) },
		func(_, name string) { x.DeleteClusterRoleBinding(name) })
	first.Wait()
	close(f.ready)
	all.Wait()
}

// rbacFollower writes one view into the index.
type rbacFollower struct {
	ep     *engine.Endpoint
	set    func(engine.Object)
	remove func(namespace, name string)
	known  map[string]*store.Item
	caught func()
}

// Reset is part of store.Follower.
func (r *rbacFollower) Reset(items []*store.Item) {
	old := r.known
	r.known = map[string]*store.Item{}
	for _, i := range items {
		delete(old, i.Key)
		r.put(i)
	}
	for _, i := range old {
		r.remove(i.Namespace(), i.Name())
	}
}

// Change is part of store.Follower.
func (r *rbacFollower) Change(e *store.Event) {
	if e.Item == nil {
		delete(r.known, e.Prev.Key)
		r.remove(e.Prev.Namespace(), e.Prev.Name())
		return
	}
	r.put(e.Item)
}

func (r *rbacFollower) put(i *store.Item) {
	r.known[i.Key] = i
	obj, err := r.ep.Decode(i)
	if err != nil {
		// What cannot be read grants nothing.
		r.remove(i.Namespace(), i.Name())
		return
	}
	r.set(obj)
}

// Caught is part of store.Follower.
func (r *rbacFollower) Caught(int64) { r.caught() }
