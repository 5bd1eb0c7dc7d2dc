package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/kanzen-io/kanzen/internal/span"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// ConflictError says that the stored object is not the one that the write was
// based on.
type ConflictError struct {
	// Current is the stored object; nil: there is none.
	Current *Item
}

func (e *ConflictError) Error() string {
	if e.Current == nil {
		return "the object was deleted"
	}
	return fmt.Sprintf("the object is at revision %d by now", e.Current.Rev)
}

// Write is what is stored of an object.
type Write struct {
	Value []byte
	TTL   time.Duration // 0: forever
	// Complete says that nothing is to be filled in when the value is read.
	Complete bool
}

// Create stores an object at a key that does not exist. It returns ErrExists if
// the key exists, or ErrVoid if a guard has failed.
func (v *View) Create(ctx context.Context, key string, w Write, guards ...Guard) (*Item, error) {
	put, err := v.put(ctx, key, w)
	if err != nil {
		return nil, err
	}
	t := kv.Txn{If: v.conditions(put.Key, 0, guards), Then: []kv.Op{put}}
	if len(guards) > 0 {
		t.Else, t.ElseKeys = []string{put.Key}, true
	}
	done, err := v.commit(ctx, etcdCreate, key, t)
	if err != nil {
		return nil, err
	}
	if !done.Held {
		if len(guards) > 0 && done.Else[0] == nil {
			return nil, ErrVoid
		}
		return nil, ErrExists
	}
	// A name is part of the body that it came with, and the view would keep all of that.
	return v.settle(NewItem(strings.Clone(key), done.Rev, w.Value), w.Complete), nil
}

// Update replaces prev. It returns a *ConflictError if prev is no longer what is
// stored, or ErrVoid if a guard has failed.
func (v *View) Update(ctx context.Context, prev *Item, w Write, guards ...Guard) (*Item, error) {
	put, err := v.put(ctx, prev.Key, w)
	if err != nil {
		return nil, err
	}
	rev, err := v.swap(ctx, etcdUpdate, prev, guards, put)
	if err != nil {
		return nil, err
	}
	return v.settle(NewItem(prev.Key, rev, w.Value), w.Complete), nil
}

// Delete removes prev. It returns a *ConflictError if prev is no longer what is
// stored. The item returned is prev at the revision of its deletion.
func (v *View) Delete(ctx context.Context, prev *Item) (*Item, error) {
	rev, err := v.swap(ctx, etcdDelete, prev, nil, kv.Op{Delete: true, Key: v.etcdPrefix + prev.Key})
	if err != nil {
		return nil, err
	}
	return prev.gone(rev), nil
}

// swap carries out op if prev is what is stored and the guards hold, and returns
// its revision. kind is what etcd is asked for.
func (v *View) swap(ctx context.Context, kind operation, prev *Item, guards []Guard, op kv.Op) (int64, error) {
	done, err := v.commit(ctx, kind, prev.Key, kv.Txn{If: v.conditions(op.Key, prev.Rev, guards), Then: []kv.Op{op}, Else: []string{op.Key}})
	if err != nil {
		return 0, err
	}
	switch {
	case done.Held:
		return done.Rev, nil
	case done.Else[0] == nil:
		return 0, &ConflictError{}
	case done.Else[0].ModRevision == prev.Rev:
		return 0, ErrVoid
	}
	return 0, &ConflictError{Current: v.item(ctx, *done.Else[0])}
}

// conditions are the conditions of a write: a key has revision rev (0: it does
// not exist) and the guards hold.
func (v *View) conditions(key string, rev int64, guards []Guard) []kv.Condition {
	return v.store.guarded(kv.Condition{Key: key, Is: kv.ModRevision, N: rev}, guards)
}

// spanNames are the names of writes in traces.
var spanNames = [...]string{etcdCreate: "Create etcd3", etcdUpdate: "GuaranteedUpdate etcd3", etcdDelete: "Delete etcd3"}

// commit carries out a transaction that writes the object at key.
func (v *View) commit(ctx context.Context, op operation, key string, t kv.Txn) (kv.Committed, error) {
	defer v.store.waited(ctx, v.store.clock.Now())
	ctx, s := span.Start(ctx, spanNames[op])
	defer s.End()
	if s.On() {
		s.Set(attribute.String("audit-id", v.store.caller.AuditID(ctx)), attribute.String("key", "/"+v.kind.Prefix+key))
	}
	asked := time.Now()
	done, err := v.store.db.Commit(ctx, t)
	v.asked(op, asked, err)
	if err != nil && !errors.Is(err, ErrTooLarge) {
		err = uncertain{err}
	}
	return done, err
}

// ErrUncertain says that the outcome of a write is unknown: it may have happened,
// and its answer may be lost. The writer must not repeat it on what is stored now.
var ErrUncertain = errors.New("the outcome of the write is unknown")

// uncertain marks an error as ErrUncertain and keeps its text.
type uncertain struct{ error }

// Is is for errors.Is.
func (uncertain) Is(target error) bool { return target == ErrUncertain }

// Unwrap is for errors.Is and errors.As.
func (u uncertain) Unwrap() error { return u.error }

func (v *View) put(ctx context.Context, key string, w Write) (kv.Op, error) {
	full, value := v.etcdPrefix+key, w.Value
	if t := v.kind.Transformer; t != nil {
		stored, err := t.ToStorage(ctx, full, value)
		if err != nil {
			return kv.Op{}, err
		}
		value = stored
	}
	return kv.Op{Key: full, Value: value, TTL: w.TTL}, nil
}
