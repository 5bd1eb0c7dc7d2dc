package engine

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// This file lets other parts of the server read and change objects, such as
// rules that change a second object (a binding changes its pod, a service its
// addresses). These changes are authorized and admitted as part of the request
// that causes them.

// local is a write of the server itself.
func (ep *Endpoint) local(namespace, name string) *write {
	return &write{Endpoint: ep, namespace: namespace, name: name, part: true}
}

// GetObject returns the newest object of a name, in the hub version.
func (ep *Endpoint) GetObject(ctx context.Context, namespace, name string) (Object, error) {
	if err := ep.view.Fresh(ctx); err != nil {
		return nil, err
	}
	i, err := ep.view.Get(ctx, key(namespace, name))
	if err != nil {
		return nil, ep.storeError(err, name)
	}
	return ep.Decode(ctx, i)
}

// StoredObject is GetObject for who looks at one object now and then: it reads etcd, so that the looks never add up to a reason
// for having all objects of the kind in memory.
func (ep *Endpoint) StoredObject(ctx context.Context, namespace, name string) (Object, error) {
	i, err := ep.view.Latest(ctx, key(namespace, name))
	if err != nil {
		return nil, ep.storeError(err, name)
	}
	return ep.Decode(ctx, i)
}

// ListObjects returns the newest objects of a namespace ("" is all).
func (ep *Endpoint) ListObjects(ctx context.Context, namespace string) ([]Object, error) {
	if err := ep.view.Fresh(ctx); err != nil {
		return nil, err
	}
	return ep.SeenObjects(ctx, namespace)
}

// SeenObjects returns the objects of a namespace ("" is all) as this server
// last saw them.
func (ep *Endpoint) SeenObjects(ctx context.Context, namespace string) ([]Object, error) {
	prefix := ""
	if namespace != "" {
		prefix = namespace + "/"
	}
	objs, err := IndexOf[Object](ep).Objects(ctx, prefix)
	return objs, ep.storeError(err, "")
}

// CreateObject stores a new object as it is; only its UID and creation time are
// filled in. The only check is that its name is not taken.
func (ep *Endpoint) CreateObject(ctx context.Context, obj Object) (Object, error) {
	w := ep.local(obj.GetNamespace(), obj.GetName())
	w.anew = true
	obj.GetObjectKind().SetGroupVersionKind(ep.hub.WithKind(ep.R.Kind))
	ep.e.born(obj)
	out, err := w.perform(ctx, nil, true, func(context.Context, *store.Item) (*decision, error) {
		return w.putting(ctx, nil, obj, nil)
	})
	return ep.written(out, err, w.name)
}

// UpdateObject changes a stored object by a func, which may be called several
// times, each time with the object stored then. On a dry run nothing is stored.
func (ep *Endpoint) UpdateObject(ctx context.Context, which request.Which, dryRun bool, change func(obj Object) error) (Object, error) {
	if err := which.Err(); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	p := ep.Edit(which, change)
	w := p.write
	w.dryRun = dryRun
	found, err := orNil(ep.view.Latest(ctx, w.key(w.name)))
	if err != nil {
		return nil, ep.storeError(err, w.name)
	}
	out, err := w.perform(ctx, found, true, p.decide)
	return ep.written(out, err, w.name)
}

// DeleteObject deletes an object as a request would, but without admission: it
// is part of another request (an eviction) that was admitted itself.
func (ep *Endpoint) DeleteObject(ctx context.Context, which request.Which, options *metav1.DeleteOptions) error {
	if err := which.Err(); err != nil {
		return apierrors.NewInternalError(err)
	}
	w := ep.local(which.Namespace(), which.Name())
	w.which = which
	_, err := w.removeObject(ctx, which.Delete(options))
	return ep.storeError(err, w.name)
}

// written is the object of an outcome.
func (ep *Endpoint) written(out *outcome, err error, name string) (Object, error) {
	if err != nil {
		return nil, ep.storeError(err, name)
	}
	return out.obj, nil
}

// Fresh returns the endpoint's objects as of now.
func (ep *Endpoint) Fresh(ctx context.Context) (*store.Snapshot, error) {
	if err := ep.view.Fresh(ctx); err != nil {
		return nil, err
	}
	return ep.view.Snapshot(ctx)
}
