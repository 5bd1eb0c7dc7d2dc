package etcd

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Range is part of store.DB.
func (d *DB) Range(ctx context.Context, r kv.Range, yield kv.Yield) (kv.Answer, error) {
	opts := make([]clientv3.OpOption, 0, 4)
	if r.End != "" {
		opts = append(opts, clientv3.WithRange(r.End))
	}
	if r.Rev != 0 {
		opts = append(opts, clientv3.WithRev(r.Rev))
	}
	if r.Limit != 0 {
		opts = append(opts, clientv3.WithLimit(r.Limit))
	}
	if r.CountOnly {
		opts = append(opts, clientv3.WithCountOnly())
	}
	resp, err := d.get(ctx, r.Key, opts...)
	if err != nil {
		return kv.Answer{}, translated(err)
	}
	for n, k := range resp.Kvs {
		resp.Kvs[n] = nil // lets the key be freed unless yield keeps it
		if !yield(keyValue(k)) {
			break
		}
	}
	return kv.Answer{Rev: resp.Header.Revision, Count: resp.Count, More: resp.More}, nil
}

// leaderPause is the pause before a read is repeated that an election has cut off.
const leaderPause = 20 * time.Millisecond

// get reads. Where an election cuts a read off it is repeated, as clients of a cluster do by themselves; the client of the
// embedded server does not.
func (d *DB) get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	for {
		r, err := d.Client.Get(ctx, key, opts...)
		if !errors.Is(err, rpctypes.ErrLeaderChanged) {
			return r, err
		}
		select {
		case <-time.After(leaderPause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Keys returns the next keys, from one on, without their values.
func (d *DB) Keys(ctx context.Context, from string, limit int64) (keys []kv.KeyValue, more bool, err error) {
	r, err := d.get(ctx, from, clientv3.WithFromKey(), clientv3.WithKeysOnly(), clientv3.WithLimit(limit))
	if err != nil {
		return nil, false, translated(err)
	}
	for _, k := range r.Kvs {
		keys = append(keys, keyValue(k))
	}
	return keys, r.More, nil
}

func keyValue(k *mvccpb.KeyValue) kv.KeyValue {
	return kv.KeyValue{Key: k.Key, Value: k.Value, CreateRevision: k.CreateRevision, ModRevision: k.ModRevision, Version: k.Version}
}

// Commit is part of store.DB.
func (d *DB) Commit(ctx context.Context, t kv.Txn) (kv.Committed, error) {
	if err := d.room(); err != nil {
		return kv.Committed{}, err
	}
	done, err := d.commit(ctx, t)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) { // nothing was changed
		d.leases.forget(ctx)
		done, err = d.commit(ctx, t)
	}
	return done, translated(err)
}

func (d *DB) commit(ctx context.Context, t kv.Txn) (kv.Committed, error) {
	conditions := make([]clientv3.Cmp, 0, len(t.If))
	for _, c := range t.If {
		conditions = append(conditions, comparison(c))
	}
	ops := make([]clientv3.Op, 0, len(t.Then))
	for _, o := range t.Then {
		op, err := d.operation(ctx, o)
		if err != nil {
			return kv.Committed{}, err
		}
		ops = append(ops, op)
	}
	txn := d.Client.Txn(ctx).If(conditions...).Then(ops...)
	if len(t.Else) > 0 {
		txn = txn.Else(reads(t)...)
	}
	r, err := txn.Commit()
	if err != nil {
		return kv.Committed{}, err
	}
	out := kv.Committed{Held: r.Succeeded, Rev: r.Header.Revision}
	if !r.Succeeded && len(t.Else) > 0 {
		out.Else = make([]*kv.KeyValue, len(t.Else))
		for n := range t.Else {
			if kvs := r.Responses[n].GetResponseRange().Kvs; len(kvs) > 0 {
				found := keyValue(kvs[0])
				out.Else[n] = &found
			}
		}
	}
	return out, nil
}

// reads are what a transaction reads if its conditions do not hold.
func reads(t kv.Txn) []clientv3.Op {
	ops := make([]clientv3.Op, 0, len(t.Else))
	for _, key := range t.Else {
		if t.ElseKeys {
			ops = append(ops, clientv3.OpGet(key, clientv3.WithKeysOnly()))
		} else {
			ops = append(ops, clientv3.OpGet(key))
		}
	}
	return ops
}

func comparison(c kv.Condition) clientv3.Cmp {
	switch c.Is {
	case kv.ModRevisionAtMost:
		return clientv3.Compare(clientv3.ModRevision(c.Key), "<", c.N+1)
	case kv.Version:
		return clientv3.Compare(clientv3.Version(c.Key), "=", c.N)
	default:
		return clientv3.Compare(clientv3.ModRevision(c.Key), "=", c.N)
	}
}

func (d *DB) operation(ctx context.Context, o kv.Op) (clientv3.Op, error) {
	var op clientv3.Op
	switch {
	case o.Delete:
		return clientv3.OpDelete(o.Key), nil
	case o.KeepTTL:
		op = clientv3.OpPut(o.Key, "", clientv3.WithIgnoreLease())
	case o.TTL > 0:
		lease, err := d.leases.get(ctx, o.TTL)
		if err != nil {
			return op, err
		}
		op = clientv3.OpPut(o.Key, "", clientv3.WithLease(lease))
	default:
		op = clientv3.OpPut(o.Key, "")
	}
	op.WithValueBytes(o.Value) // OpPut would copy it
	return op, nil
}

// Compact is part of store.DB.
func (d *DB) Compact(ctx context.Context, rev int64) error {
	_, err := d.Client.Compact(ctx, rev)
	return translated(err)
}

// translated turns etcd's errors into those of package kv. Errors that users
// may see keep their text.
func translated(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rpctypes.ErrCompacted):
		return kv.ErrCompacted
	case errors.Is(err, rpctypes.ErrFutureRev):
		return kv.ErrFuture
	case errors.Is(err, rpctypes.ErrNoSpace):
		return known{err, kv.ErrNoSpace}
	case errors.Is(err, rpctypes.ErrRequestTooLarge),
		strings.Contains(err.Error(), "request is too large"),
		strings.Contains(err.Error(), "trying to send message larger than max"): // the client's own limit
		return known{err, kv.ErrTooLarge}
	}
	return err
}

// known is an error of etcd that corresponds to one of package kv.
type known struct {
	error
	is error
}

func (k known) Unwrap() []error { return []error{k.error, k.is} }
