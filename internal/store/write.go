package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.opentelemetry.io/otel/attribute"

	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/span"
)

// ConflictError says that the object at the key is not the one the writer
// built on.
type ConflictError struct {
	// Current is what is there instead; nil: nothing is.
	Current *Item
}

func (e *ConflictError) Error() string {
	if e.Current == nil {
		return "the object was deleted"
	}
	return fmt.Sprintf("the object is at revision %d by now", e.Current.Rev)
}

// Create stores value at a key where nothing is, for ttl (0: for good), or
// returns ErrExists, or ErrVoid if a guard has failed.
func (v *View) Create(ctx context.Context, key string, value []byte, ttl time.Duration, guards ...Guard) (*Item, error) {
	put, err := v.put(ctx, key, value, ttl)
	if err != nil {
		return nil, err
	}
	var otherwise []clientv3.Op
	if len(guards) > 0 {
		otherwise = []clientv3.Op{clientv3.OpGet(v.etcdPrefix+key, clientv3.WithKeysOnly())}
	}
	r, err := v.commit(ctx, key, 0, guards, put, otherwise...)
	if err != nil {
		return nil, err
	}
	if !r.Succeeded {
		if len(guards) > 0 && len(r.Responses[0].GetResponseRange().Kvs) == 0 {
			return nil, ErrVoid
		}
		return nil, ErrExists
	}
	return &Item{Key: key, Rev: r.Header.Revision, Value: value}, nil
}

// Update stores value in the place of prev, or returns a *ConflictError if
// prev is no longer what is stored, or ErrVoid if a guard has failed.
func (v *View) Update(ctx context.Context, prev *Item, value []byte, ttl time.Duration, guards ...Guard) (*Item, error) {
	put, err := v.put(ctx, prev.Key, value, ttl)
	if err != nil {
		return nil, err
	}
	r, err := v.swap(ctx, prev, guards, put)
	if err != nil {
		return nil, err
	}
	return &Item{Key: prev.Key, Rev: r.Header.Revision, Value: value}, nil
}

// Delete removes prev, or returns a *ConflictError if it is no longer what is
// stored. The item returned is prev at the revision of its deletion.
func (v *View) Delete(ctx context.Context, prev *Item) (*Item, error) {
	r, err := v.swap(ctx, prev, nil, clientv3.OpDelete(v.etcdPrefix+prev.Key))
	if err != nil {
		return nil, err
	}
	return &Item{Key: prev.Key, Rev: r.Header.Revision, Value: prev.Value}, nil
}

// swap does op if prev is what is stored and the guards hold.
func (v *View) swap(ctx context.Context, prev *Item, guards []Guard, op clientv3.Op) (*clientv3.TxnResponse, error) {
	r, err := v.commit(ctx, prev.Key, prev.Rev, guards, op, clientv3.OpGet(v.etcdPrefix+prev.Key))
	if err != nil || r.Succeeded {
		return r, err
	}
	c := &ConflictError{}
	if kvs := r.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
		if kvs[0].ModRevision == prev.Rev {
			return nil, ErrVoid
		}
		c.Current = v.item(ctx, kvs[0])
	}
	return nil, c
}

// commit does op if what is stored at key is of revision rev (0: nothing is
// stored) and the guards hold, and otherwise instead.
func (v *View) commit(ctx context.Context, key string, rev int64, guards []Guard, op clientv3.Op, otherwise ...clientv3.Op) (*clientv3.TxnResponse, error) {
	began := request.Begin(ctx)
	defer request.End(ctx, request.LayerStorage, began)
	name := "GuaranteedUpdate etcd3"
	switch {
	case rev == 0:
		name = "Create etcd3"
	case op.IsDelete():
		name = "Delete etcd3"
	}
	ctx, s := span.Start(ctx, name)
	defer s.End()
	if s.On() {
		s.Set(attribute.String("audit-id", request.AuditIDFrom(ctx)), attribute.String("key", "/"+v.kind.Prefix+key))
	}
	conditions := append(v.store.conditions(guards), clientv3.Compare(clientv3.ModRevision(v.etcdPrefix+key), "=", rev))
	r, err := v.store.db.Client.Txn(ctx).
		If(conditions...).
		Then(op).Else(otherwise...).
		Commit()
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		v.store.leases.forget(ctx)
	}
	return r, err
}

func (v *View) put(ctx context.Context, key string, value []byte, ttl time.Duration) (clientv3.Op, error) {
	full := v.etcdPrefix + key
	if t := v.kind.Transformer; t != nil {
		stored, err := t.ToStorage(ctx, full, value)
		if err != nil {
			return clientv3.Op{}, err
		}
		value = stored
	}
	if ttl <= 0 {
		return clientv3.OpPut(full, string(value)), nil
	}
	lease, err := v.store.leases.get(ctx, ttl)
	if err != nil {
		return clientv3.Op{}, err
	}
	return clientv3.OpPut(full, string(value), clientv3.WithLease(lease)), nil
}
