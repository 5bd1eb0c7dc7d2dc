package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/store"
)

// This file is how the server's own parts read and change objects: rules that
// touch a second object (a binding its pod, a service its addresses). What
// they do was authorized and admitted as part of the request that they serve.

// local is a call without an HTTP request.
func (ep *Endpoint) local(namespace, name string) *call {
	return &call{Endpoint: ep, namespace: namespace, name: name}
}

// GetObject returns the newest object of a name, in the hub version.
func (ep *Endpoint) GetObject(ctx context.Context, namespace, name string) (Object, error) {
	if err := ep.e.Store.Fresh(ctx); err != nil {
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
	if err := ep.e.Store.Fresh(ctx); err != nil {
		return nil, err
	}
	return ep.SeenObjects(ctx, namespace)
}

// SeenObjects returns the objects of a namespace ("" is all) as this server
// last saw them.
func (ep *Endpoint) SeenObjects(ctx context.Context, namespace string) ([]Object, error) {
	snap, err := ep.view.Snapshot(ctx)
	if err != nil {
		return nil, ep.storeError(err, "")
	}
	prefix := ""
	if namespace != "" {
		prefix = namespace + "/"
	}
	var out []Object
	var failed error
	err = snap.Ascend(ctx, store.Range{Prefix: prefix}, func(i *store.Item) bool {
		obj, err := ep.Shared(i)
		if err != nil {
			failed = err
			return false
		}
		out = append(out, obj)
		return true
	})
	return out, cmp.Or(failed, err)
}

// CreateObject stores a new object as it is; only its UID and creation time
// are filled in. It is subject to no rules but that its name be free.
func (ep *Endpoint) CreateObject(ctx context.Context, obj Object) (Object, error) {
	c := ep.local(obj.GetNamespace(), obj.GetName())
	obj.GetObjectKind().SetGroupVersionKind(ep.hub.WithKind(ep.R.Kind))
	ep.e.born(obj)
	value, err := ep.toStorage(obj)
	if err != nil {
		return nil, err
	}
	i, err := ep.view.Create(ctx, c.key(c.name), value, c.ttl(obj))
	if err != nil {
		return nil, ep.storeError(err, c.name)
	}
	obj.SetResourceVersion(formatRev(i.Rev))
	return obj, nil
}

// UpdateObject changes a stored object by a func, which may run several times,
// each time with what is stored then. On a dry run nothing is stored.
func (ep *Endpoint) UpdateObject(ctx context.Context, namespace, name string, dryRun bool, change func(obj Object) error) (Object, error) {
	c := ep.local(namespace, name)
	i, err := ep.view.Latest(ctx, c.key(name))
	for {
		if err != nil {
			return nil, ep.storeError(err, name)
		}
		obj, err2 := ep.Decode(i)
		if err2 != nil {
			return nil, err2
		}
		if err := change(obj); err != nil || dryRun {
			return obj, err
		}
		value, err2 := ep.toStorage(obj)
		if err2 != nil {
			return nil, err2
		}
		stored, err2 := ep.view.Update(ctx, i, value, c.ttl(obj))
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
// is part of a request that was admitted as what it is (an eviction).
func (ep *Endpoint) DeleteObject(ctx context.Context, namespace, name string, options *metav1.DeleteOptions) error {
	if options == nil {
		options = &metav1.DeleteOptions{}
	}
	c := ep.local(namespace, name)
	c.admitted = true
	_, _, err := c.remove(ctx, name, options)
	return ep.storeError(err, name)
}

// ApplyStatus lays a status over an object's by server-side apply, taking the
// fields from other managers if need be.
func (ep *Endpoint) ApplyStatus(ctx context.Context, namespace, name, manager string, status map[string]any) error {
	body, err := json.Marshal(map[string]any{
		"apiVersion": ep.GVK.GroupVersion().String(), "kind": ep.GVK.Kind,
		"metadata": map[string]any{"name": name}, "status": status,
	})
	if err != nil {
		return err
	}
	c := ep.local(namespace, name)
	for _, s := range ep.R.Subresources {
		if s.Name == "status" {
			c.sub = s
		}
	}
	force := true
	options := &metav1.PatchOptions{FieldManager: manager, Force: &force}
	_, err = c.change(ctx, &change{
		rules: c.rules(), options: &metav1.UpdateOptions{FieldManager: manager},
		mutate: func(ctx context.Context, old Object, exists bool) (Object, error) {
			return c.patched(ctx, types.ApplyYAMLPatchType, body, options, old, exists)
		},
	})
	return ep.storeError(err, name)
}

// Fresh returns the endpoint's objects as of now.
func (ep *Endpoint) Fresh(ctx context.Context) (*store.Snapshot, error) {
	if err := ep.e.Store.Fresh(ctx); err != nil {
		return nil, err
	}
	return ep.view.Snapshot(ctx)
}

// Make creates an object as a request of the context's user would: with
// defaults, rules, admission and, under the name of manager, field management.
func (ep *Endpoint) Make(ctx context.Context, obj Object, manager string) (Object, error) {
	obj.GetObjectKind().SetGroupVersionKind(ep.GVK)
	obj, err := ep.incoming(obj)
	if err != nil {
		return nil, err
	}
	c := ep.local(obj.GetNamespace(), "")
	i, err := c.createObject(ctx, obj, &metav1.CreateOptions{FieldManager: manager})
	if err != nil {
		return nil, ep.storeError(err, c.name)
	}
	return ep.Decode(i)
}

// Change updates an object, or one of its subresources, as a request of the
// context's user would; edit gets a copy of what is stored. It returns the
// revision that the object has then, 0 if it is gone.
func (ep *Endpoint) Change(ctx context.Context, namespace, name, subresource, manager string, edit func(obj Object) error) (int64, error) {
	c := ep.local(namespace, name)
	for _, s := range ep.R.Subresources {
		if s.Name == subresource {
			c.sub = s
		}
	}
	options := &metav1.UpdateOptions{FieldManager: manager}
	res, err := c.change(ctx, &change{
		rules: c.rules(), options: options,
		mutate: func(ctx context.Context, old Object, exists bool) (Object, error) {
			obj := old.DeepCopyObject().(Object)
			if err := edit(obj); err != nil {
				return nil, err
			}
			obj, err := c.track(old, obj, manager)
			if err != nil {
				return nil, err
			}
			return c.admit(ctx, obj, old, exists, options)
		},
	})
	if err != nil {
		return 0, ep.storeError(err, name)
	}
	if res.item == nil {
		return 0, nil
	}
	return res.item.Rev, nil
}
