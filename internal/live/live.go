// Package live keeps values that are derived from changing data, such as discovery documents of definitions. A value is
// derived again when it is requested after a change, not at every one of a thousand concurrent changes.
package live

import (
	"context"
	"sync"
	"sync/atomic"
)

// Value is a derived T. It is safe for concurrent use.
type Value[T any] struct {
	changes func() int64
	make    func() T

	mu   sync.Mutex
	made bool  // guarded by mu, as are value and at
	at   int64 // the change count that value is derived from
	// value is the last derived T.
	value T
}

// New returns a Value derived by make; changes returns how often the source may have changed.
func New[T any](changes func() int64, make func() T) *Value[T] {
	return &Value[T]{changes: changes, make: make}
}

// Get returns the current T.
func (v *Value[T]) Get() T {
	v.mu.Lock()
	defer v.mu.Unlock()
	// Read the count first: a change during make then causes another one.
	if n := v.changes(); !v.made || n != v.at {
		v.value, v.at, v.made = v.make(), n, true
	}
	return v.value
}

// Derived is a T that is derived from stored objects. Reading it costs two loads and no lock while they stay the same.
// It is safe for concurrent use.
type Derived[K comparable, T any] struct {
	// Revision is the revision of the objects: while it stays the same, so do they.
	Revision func(ctx context.Context) (K, error)
	// Make derives the value; was is the one before, the zero T at first.
	Make func(ctx context.Context, was T) (T, error)

	making sync.Mutex
	now    atomic.Pointer[derived[K, T]]
}

// derived is a value and the revision that it is derived from.
type derived[K comparable, T any] struct {
	at    K
	value T
}

// Get returns the T of the objects as they are.
func (d *Derived[K, T]) Get(ctx context.Context) (T, error) {
	var none T
	at, err := d.Revision(ctx)
	if err != nil {
		return none, err
	}
	if now := d.now.Load(); now != nil && now.at == at {
		return now.value, nil
	}
	d.making.Lock()
	defer d.making.Unlock()
	// Read before the objects: they may be newer than their revision, never older.
	if at, err = d.Revision(ctx); err != nil {
		return none, err
	}
	was := d.now.Load()
	if was == nil {
		was = &derived[K, T]{value: none}
	} else if was.at == at {
		return was.value, nil
	}
	made, err := d.Make(ctx, was.value)
	if err != nil {
		return none, err
	}
	d.now.Store(&derived[K, T]{at, made})
	return made, nil
}
