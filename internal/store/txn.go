package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/kanzen-io/kanzen/internal/base/span"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Op is one part of a Commit: it creates, replaces or removes an object, or
// only relies on it.
type Op struct {
	View *View
	// Prev is the stored object; nil: there is none at Key.
	Prev *Item
	// Key is needed only without Prev.
	Key string
	// Do says what is done.
	Do Action
	// Write is what Put stores.
	Write Write
}

// Action says what an Op does.
type Action int

// The actions.
const (
	Put    Action = iota // store Write, in place of Prev
	Remove               // remove Prev
	Expect               // nothing; but all others happen only if Prev is stored
)

// ConflictsError says which parts of a Commit were based on what is no longer
// stored. Nothing was changed.
type ConflictsError struct {
	// Of has a place for each Op; nil: that one was right.
	Of []*ConflictError
}

func (e *ConflictsError) Error() string { return errors.Join(e.Unwrap()...).Error() }

// Unwrap returns the conflicts there are.
func (e *ConflictsError) Unwrap() (all []error) {
	for _, c := range e.Of {
		if c != nil {
			all = append(all, c)
		}
	}
	return all
}

// Commit carries out writes as one: all of them at one revision, or none. They
// are of different objects, of any views of one Store. It returns the item of
// each: a removed one at the revision of its removal, Prev of one that is only
// expected. It returns a *ConflictsError if objects are not those that the writes
// are based on, or ErrVoid if a guard has failed and nothing else.
func Commit(ctx context.Context, ops []Op, guards ...Guard) ([]*Item, error) {
	if err := check(ops); err != nil {
		return nil, err
	}
	done, err := transact(ctx, ops, guards, readValues)
	if err != nil {
		return nil, err
	}
	if !done.Held {
		return nil, conflicts(ctx, ops, done.Else)
	}
	out := make([]*Item, len(ops))
	for n := range ops {
		out[n] = ops[n].settle(done.Rev)
	}
	return out, nil
}

// check refuses what no database carries out.
func check(ops []Op) error {
	if len(ops) == 0 {
		return errors.New("a transaction without writes")
	}
	if most := ops[0].View.store.db.MaxOps(); len(ops) > most {
		return fmt.Errorf("a transaction of %d writes; there may be 1 to %d", len(ops), most)
	}
	paths, writes := make(map[string]bool, len(ops)), false
	for n := range ops {
		op := &ops[n]
		if op.View.store != ops[0].View.store {
			return fmt.Errorf("%s and %s are not in one database, and cannot be written as one", ops[0].View.kind.Prefix, op.View.kind.Prefix)
		}
		if paths[op.path()] {
			return fmt.Errorf("a transaction writes %s twice", op.path())
		}
		paths[op.path()] = true
		writes = writes || op.Do != Expect
	}
	if !writes {
		return errors.New("a transaction without writes")
	}
	return nil
}

func conflicts(ctx context.Context, ops []Op, found []*kv.KeyValue) error {
	e := &ConflictsError{Of: make([]*ConflictError, len(ops))}
	guarded := true
	for n := range ops {
		if e.Of[n] = ops[n].conflict(ctx, found[n]); e.Of[n] != nil {
			guarded = false
		}
	}
	if guarded {
		return ErrVoid
	}
	return e
}

func (o *Op) key() string {
	if o.Prev != nil {
		return o.Prev.Key
	}
	return o.Key
}

// path is the key in the database.
func (o *Op) path() string { return o.View.etcdPrefix + o.key() }

// rev is the revision that the key has to have.
func (o *Op) rev() int64 {
	if o.Prev != nil {
		return o.Prev.Rev
	}
	return 0
}

// conflict returns why the key that is found is not what the op is based on; nil
// if it is.
func (o *Op) conflict(ctx context.Context, found *kv.KeyValue) *ConflictError {
	switch {
	case found == nil && o.rev() == 0, found != nil && found.ModRevision == o.rev():
		return nil
	case found == nil:
		return &ConflictError{}
	}
	return &ConflictError{Current: o.View.item(ctx, *found)}
}

// settle returns the item of an op that was carried out at a revision.
func (o *Op) settle(rev int64) *Item {
	switch o.Do {
	case Remove:
		return o.Prev.Gone(rev)
	case Expect:
		return o.Prev
	}
	key := o.key()
	if o.Prev == nil {
		key = strings.Clone(key) // a name is part of the body that it came with, and the view would keep all of that
	}
	return o.View.settle(NewItem(key, rev, o.Write.Value), o.Write.Complete)
}

// reading says what a transaction reads if it is not carried out.
type reading int

const (
	readNothing reading = iota
	readKeys
	readValues
)

// small is the parts of a transaction of one op, in one piece of memory.
type small struct {
	conditions [2]kv.Condition
	op         [1]kv.Op
	key        [1]string
}

// transact carries out ops if all of them are based on what is stored, and the
// guards hold. The first names and measures the request.
func transact(ctx context.Context, ops []Op, guards []Guard, instead reading) (kv.Committed, error) {
	t, err := transaction(ctx, ops, guards, instead)
	if err != nil {
		return kv.Committed{}, err
	}
	v, op := ops[0].View, ops[0].operation()
	defer v.store.waited(ctx, v.store.clock.Now())
	ctx, s := span.Start(ctx, spanNames[op])
	defer s.End()
	if s.On() {
		s.Set(attribute.String("audit-id", v.store.caller.AuditID(ctx)), attribute.String("key", "/"+v.Below(ops[0].key())))
	}
	asked := time.Now()
	done, err := v.store.db.Commit(ctx, t)
	v.asked(op, asked, err)
	if err != nil && !errors.Is(err, ErrTooLarge) {
		err = uncertain{err}
	}
	return done, err
}

// transaction is what the database is asked to do.
func transaction(ctx context.Context, ops []Op, guards []Guard, instead reading) (kv.Txn, error) {
	room := new(small)
	t := kv.Txn{If: room.conditions[:0], Then: room.op[:0], ElseKeys: instead == readKeys}
	if instead != readNothing {
		t.Else = room.key[:0]
	}
	for n := range ops {
		op := &ops[n]
		path := op.path()
		t.If = append(t.If, kv.Condition{Key: path, Is: kv.ModRevision, N: op.rev()})
		if instead != readNothing {
			t.Else = append(t.Else, path)
		}
		switch op.Do {
		case Put:
			stored, err := op.View.sealed(ctx, path, op.Write.Value)
			if err != nil {
				return kv.Txn{}, err
			}
			t.Then = append(t.Then, kv.Op{Key: path, Value: stored, TTL: op.Write.TTL})
		case Remove:
			t.Then = append(t.Then, kv.Op{Delete: true, Key: path})
		}
	}
	t.If = ops[0].View.store.guarded(t.If, guards)
	return t, nil
}

// sealed returns the bytes to store for a value.
func (v *View) sealed(ctx context.Context, path string, value []byte) ([]byte, error) {
	if v.kind.Transformer == nil {
		return value, nil
	}
	return v.kind.Transformer.ToStorage(ctx, path, value)
}

// spanNames are the names of writes in traces.
var spanNames = [...]string{etcdCreate: "Create etcd3", etcdUpdate: "GuaranteedUpdate etcd3", etcdDelete: "Delete etcd3"}

// operation is what the database is asked for.
func (o *Op) operation() operation {
	switch {
	case o.Do == Remove:
		return etcdDelete
	case o.Prev == nil:
		return etcdCreate
	}
	return etcdUpdate
}
