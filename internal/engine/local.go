package engine

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// This file lets other parts of the server read and change objects, such as
// rules that change a second object (a binding changes its pod, a service its
// addresses). These changes are authorized and admitted as part of the request
// that causes them.

// local is a call without an HTTP request.
func (ep *Endpoint) local(namespace, name string) *call {
	return &call{Endpoint: ep, namespace: namespace, name: name}
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
	return ep.Decode(i)
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
	c := ep.local(obj.GetNamespace(), obj.GetName())
	obj.GetObjectKind().SetGroupVersionKind(ep.hub.WithKind(ep.R.Kind))
	ep.e.born(obj)
	value, err := ep.toStorage(obj)
	if err != nil {
		return nil, err
	}
	i, err := ep.view.Create(ctx, c.key(c.name), store.Write{Value: value, TTL: c.ttl(obj)})
	if err != nil {
		return nil, ep.storeError(err, c.name)
	}
	obj.SetResourceVersion(formatRev(i.Rev))
	return obj, nil
}

// UpdateObject changes a stored object by a func, which may be called several
// times, each time with the object stored then. On a dry run nothing is stored.
func (ep *Endpoint) UpdateObject(ctx context.Context, w request.Which, dryRun bool, change func(obj Object) error) (Object, error) {
	if err := w.Err(); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	name := w.Name()
	c := ep.local(w.Namespace(), name)
	c.which = w
	i, err := ep.view.Latest(ctx, c.key(name))
	for {
		if err != nil {
			return nil, ep.storeError(err, name)
		}
		obj, err2 := ep.Decode(i)
		if err2 != nil {
			return nil, err2
		}
		if err := c.meant(obj); err != nil {
			return nil, err
		}
		if err := change(obj); err != nil || dryRun {
			return obj, err
		}
		value, err2 := ep.toStorage(obj)
		if err2 != nil {
			return nil, err2
		}
		stored, err2 := ep.view.Update(ctx, i, store.Write{Value: value, TTL: c.ttl(obj)})
		var conflict *store.ConflictError
		if errors.As(err2, &conflict) {
			if i, err = conflict.Current, nil; i == nil {
				err = store.ErrNotFound
			}
			continue
		}
		if err2 != nil {
			return nil, ep.storeError(err2, name)
		}
		obj.SetResourceVersion(formatRev(stored.Rev))
		return obj, nil
	}
}

// DeleteObject deletes an object as a request would, but without admission: it
// is part of another request (an eviction) that was admitted itself.
func (ep *Endpoint) DeleteObject(ctx context.Context, w request.Which, options *metav1.DeleteOptions) error {
	if err := w.Err(); err != nil {
		return apierrors.NewInternalError(err)
	}
	c := ep.local(w.Namespace(), w.Name())
	c.which, c.admitted = w, true
	_, _, err := c.remove(ctx, w.Name(), w.Delete(options))
	return ep.storeError(err, w.Name())
}

// Fresh returns the endpoint's objects as of now.
func (ep *Endpoint) Fresh(ctx context.Context) (*store.Snapshot, error) {
	if err := ep.view.Fresh(ctx); err != nil {
		return nil, err
	}
	return ep.view.Snapshot(ctx)
}
