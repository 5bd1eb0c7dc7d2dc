package controllers

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/controllers/remotes"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/resourcequota"
)

// This file counts the objects of extension servers that quotas limit, by what their watches report. Their usage is only
// shown: no admission of this server sees the writes.

// remoteUsage has the names of the objects of extension servers that quotas limit.
type remoteUsage struct {
	mu sync.Mutex
	// listed has the resources that were listed, with the names of their objects by namespace.
	listed map[schema.GroupResource]map[string]map[string]bool
}

// set replaces what is known of a resource; nil: nothing is.
func (u *remoteUsage) set(gr schema.GroupResource, objects []remotes.Object) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if objects == nil {
		delete(u.listed, gr)
		return
	}
	if u.listed == nil {
		u.listed = map[schema.GroupResource]map[string]map[string]bool{}
	}
	u.listed[gr] = map[string]map[string]bool{}
	for n := range objects {
		u.putLocked(gr, &objects[n])
	}
}

func (u *remoteUsage) putLocked(gr schema.GroupResource, o *remotes.Object) {
	in := u.listed[gr][o.Namespace]
	if in == nil {
		in = map[string]bool{}
		u.listed[gr][o.Namespace] = in
	}
	in[o.Name] = true
}

func (u *remoteUsage) put(gr schema.GroupResource, o *remotes.Object) (added bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.listed[gr] == nil || u.listed[gr][o.Namespace][o.Name] {
		return false
	}
	u.putLocked(gr, o)
	return true
}

func (u *remoteUsage) remove(gr schema.GroupResource, o *remotes.Object) {
	u.mu.Lock()
	defer u.mu.Unlock()
	in := u.listed[gr][o.Namespace]
	delete(in, o.Name)
	if len(in) == 0 {
		delete(u.listed[gr], o.Namespace)
	}
}

// stored returns the objects of a namespace, of the resources that are limited.
func (u *remoteUsage) stored(namespace string, limited func(gr schema.GroupResource) bool) (out []resourcequota.Stored) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for gr, in := range u.listed {
		if !limited(gr) {
			continue
		}
		names := make([]string, 0, len(in[namespace]))
		for name := range in[namespace] {
			names = append(names, name)
		}
		out = append(out, resourcequota.Stored{
			Resource: gr, Len: func() (int64, error) { return int64(len(names)), nil },
			Each: func(f func(obj runtime.Object) error) error {
				for _, name := range names {
					if err := f(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}); err != nil {
						return err
					}
				}
				return nil
			},
		})
	}
	return out
}

// followRemotes counts the objects of extension servers that quotas limit, until ctx ends.
func (l *limits) followRemotes(ctx context.Context) {
	k := l.keeper
	f := &remotes.Follower{
		Client: remotes.NewClient(k.client.Transport()), Catalog: k.Catalog, Clock: k.Clock, Guard: k.Guard, Log: k.Log,
		Chosen: func(r *remotes.Kind) bool { // as kube-controller-manager chooses
			gr := r.GroupResource()
			return r.Namespaced && r.Can("create", "list", "watch", "delete") && resourcequota.Metered(gr) && len(l.namespaces(gr)) > 0
		},
		Begin: func(r *remotes.Kind) remotes.Events {
			gr := r.GroupResource()
			return remotes.Events{
				Listed: func(objects []remotes.Object) {
					k.remote.set(gr, append([]remotes.Object{}, objects...))
					for _, namespace := range l.namespaces(gr) {
						k.soon(namespace)
					}
				},
				Put: func(o remotes.Object) {
					if k.remote.put(gr, &o) && l.limited(o.Namespace, gr) {
						k.soon(o.Namespace)
					}
				},
				Deleted: func(o remotes.Object) {
					k.remote.remove(gr, &o)
					if l.limited(o.Namespace, gr) {
						k.soon(o.Namespace)
					}
				},
				End: func() { k.remote.set(gr, nil) },
			}
		},
	}
	f.Run(ctx, l.remoteAnew)
}
