package store

import (
	"context"
	"errors"
	"fmt"
	"time"
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
	op := [1]Op{{View: v, Key: key, Write: w}}
	instead := readNothing
	if len(guards) > 0 {
		instead = readKeys
	}
	done, err := transact(ctx, op[:], guards, instead)
	switch {
	case err != nil:
		return nil, err
	case done.Held:
		return op[0].settle(done.Rev), nil
	case len(guards) > 0 && done.Else[0] == nil:
		return nil, ErrVoid
	}
	return nil, ErrExists
}

// Update replaces prev. It returns a *ConflictError if prev is no longer what is
// stored, or ErrVoid if a guard has failed.
func (v *View) Update(ctx context.Context, prev *Item, w Write, guards ...Guard) (*Item, error) {
	return commitOne(ctx, Op{View: v, Prev: prev, Write: w}, guards)
}

// Delete removes prev. It returns a *ConflictError if prev is no longer what is
// stored. The item returned is prev at the revision of its deletion.
func (v *View) Delete(ctx context.Context, prev *Item) (*Item, error) {
	return commitOne(ctx, Op{View: v, Prev: prev, Do: Remove}, nil)
}

// commitOne is Commit of one write. Its conflict is an error by itself.
func commitOne(ctx context.Context, op Op, guards []Guard) (*Item, error) {
	ops := [1]Op{op}
	done, err := transact(ctx, ops[:], guards, readValues)
	if err != nil {
		return nil, err
	}
	if done.Held {
		return ops[0].settle(done.Rev), nil
	}
	if c := ops[0].conflict(ctx, done.Else[0]); c != nil {
		return nil, c
	}
	return nil, ErrVoid
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
