package pebble

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Commit is part of store.DB.
func (d *DB) Commit(ctx context.Context, t kv.Txn) (kv.Committed, error) {
	if err := d.acceptable(ctx, t.Then); err != nil {
		return kv.Committed{}, err
	}
	done, waits, err := d.decide(ctx, t)
	if err == nil {
		err = d.durable.wait(ctx, waits)
	}
	if err != nil {
		return kv.Committed{}, err
	}
	return done, nil
}

// acceptable returns an error if operations can not be carried out, whatever is stored.
func (d *DB) acceptable(ctx context.Context, ops []kv.Op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var keys map[string]bool
	if len(ops) > 1 {
		keys = make(map[string]bool, len(ops))
	}
	grows := false
	for _, o := range ops {
		if len(o.Value) > d.maxValue {
			return kv.ErrTooLarge
		}
		if keys[o.Key] {
			return fmt.Errorf("two operations of one transaction are about key %q", o.Key)
		}
		if keys != nil {
			keys[o.Key] = true
		}
		grows = grows || !o.Delete
	}
	if grows { // what deletes makes room
		return d.room()
	}
	return nil
}

// decide carries out a transaction but for the disk, which the caller has to wait for before it tells anybody of the outcome.
func (d *DB) decide(ctx context.Context, t kv.Txn) (done kv.Committed, waits *group, err error) {
	left, err := d.use(ctx)
	if err != nil {
		return kv.Committed{}, nil, err
	}
	defer left()
	defer d.broken.Recover(&err)
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.newest()
	defer func() { err = firstError(err, now.close()) }()
	for _, c := range t.If {
		held, err := now.holds(c)
		if err != nil {
			return kv.Committed{}, nil, err
		}
		if !held {
			done = kv.Committed{Rev: d.rev}
			done.Else, err = now.instead(t)
			return done, d.durable.pending(), err
		}
	}
	w := d.begin(len(t.Then))
	for _, o := range t.Then {
		if err := w.carryOut(now, o); err != nil {
			return kv.Committed{}, nil, errors.Join(err, w.batch.Close())
		}
	}
	waits, err = w.end()
	return kv.Committed{Held: true, Rev: d.rev}, waits, err
}

// writing is a transaction that is being put together. It belongs to who holds the lock.
type writing struct {
	d       *DB
	rev     int64
	batch   *pebble.Batch
	changes []byte // the value of its revision
	events  []kv.Event
	heads   []head // of the keys in events
	ends    int64  // the earliest of its keys; 0: none
}

func (d *DB) begin(ops int) *writing {
	return &writing{d: d, rev: d.rev + 1, batch: d.tree.NewBatch(), events: make([]kv.Event, 0, ops)}
}

// carryOut adds an operation.
func (w *writing) carryOut(now *reader, o kv.Op) error {
	was, err := now.find(o.Key)
	if err != nil || o.Delete && was.version == 0 {
		return err
	}
	r := record{rev: w.rev}
	if !o.Delete {
		r.created, r.version, r.ends, r.value = w.rev, 1, w.d.endOf(o, was), o.Value
		if was.version > 0 {
			r.created, r.version = was.created, was.version+1
		}
	}
	if was.ends != r.ends {
		if err := w.rebind(o.Key, was.ends, r.ends); err != nil {
			return err
		}
	}
	return w.put(o.Key, r)
}

// put adds a record.
func (w *writing) put(key string, r record) error {
	var scratch [3 * binary.MaxVarintLen64]byte
	h := r.head(scratch[:0])
	op := w.batch.SetDeferred(len(key)+countZeros(key)+3+revisionBytes, len(h)+len(r.value))
	op.Key = binary.BigEndian.AppendUint64(appendKey(op.Key[:0], key), ^uint64(r.rev))
	copy(op.Value[copy(op.Value, h):], r.value)
	if err := op.Finish(); err != nil {
		return err
	}
	w.changes = appendChange(w.changes, key, !r.exists())
	w.heads = append(w.heads, head{rev: r.rev, created: r.created, version: r.version, ends: r.ends})
	w.events = append(w.events, kv.Event{Deleted: !r.exists(), KeyValue: kv.KeyValue{Key: []byte(key), Value: r.value,
		CreateRevision: r.created, ModRevision: r.rev, Version: r.version}})
	return nil
}

func countZeros(key string) (n int) {
	for i := range len(key) {
		if key[i] == 0 {
			n++
		}
	}
	return n
}

// rebind moves a key from one end to another; 0: none.
func (w *writing) rebind(key string, from, to int64) error {
	if from != 0 {
		if err := w.batch.Delete(endKey(from, key), nil); err != nil {
			return err
		}
	}
	if to == 0 {
		return nil
	}
	if w.ends == 0 || to < w.ends {
		w.ends = to
	}
	return w.batch.Set(endKey(to, key), nil, nil)
}

// end applies the transaction, if it changes anything. The caller waits for what it returns.
func (w *writing) end() (*group, error) {
	d := w.d
	if len(w.events) == 0 {
		return d.durable.pending(), w.batch.Close()
	}
	if err := w.batch.Set(revisionKey(w.rev), w.changes, nil); err != nil {
		return nil, err
	}
	apply, how := d.tree.ApplyNoSyncWait, pebble.Sync
	if d.unsynced {
		apply, how = d.tree.Apply, pebble.NoSync
	}
	if err := apply(w.batch, how); err != nil {
		d.broken.Set(err) // it is not known whether it is in the tree
		return nil, d.broken.Err()
	}
	d.rev = w.rev
	for n, h := range w.heads {
		d.heads.put(string(w.events[n].Key), h)
	}
	d.tail.add(w.events)
	if w.ends != 0 {
		d.expiry.wake(w.ends)
	}
	if d.unsynced {
		d.durable.advance(w.rev)
		return nil, w.batch.Close()
	}
	return d.durable.add(w.batch, w.rev), nil
}

// endOf is when a put ends a key; 0: never.
func (d *DB) endOf(o kv.Op, was head) int64 {
	switch {
	case o.KeepTTL:
		return was.ends
	case o.TTL <= 0:
		return 0
	}
	at := d.clock.Now().Add(o.TTL)
	if late := kv.Late(o.TTL); late > 0 {
		at = at.Truncate(late).Add(late)
	}
	return max(1, at.Truncate(time.Millisecond).Add(time.Millisecond).UnixNano())
}
