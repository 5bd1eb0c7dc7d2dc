// Package live keeps values that are derived from changing data, such as discovery documents of definitions. A value is
// derived again when it is requested after a change, not at every one of a thousand concurrent changes.
//
// A reader gets no value that is older than the data at its call. If the value is current, the reader waits for nobody. Readers
// that need another one share the work: the first makes it, in its own context, and the others wait for it.
package live

import (
	"context"
	"sync"
	"sync/atomic"
)

// Value is a derived T whose making neither fails nor ends early. It is safe for concurrent use.
type Value[T any] struct{ derived Derived[int64, T] }

// New returns a Value derived by make; changes returns how often the source may have changed.
func New[T any](changes func() int64, make func() T) *Value[T] {
	return &Value[T]{Derived[int64, T]{
		Revision: func(context.Context) (int64, error) { return changes(), nil },
		Make:     func(context.Context, T) (T, error) { return make(), nil },
	}}
}

// Get returns the current T.
func (v *Value[T]) Get() T {
	value, _ := v.derived.Get(context.Background()) // neither of its funcs fails
	return value
}

// Derived is a T that is derived from stored objects. Reading it costs two loads and no lock while they stay the same.
// It is safe for concurrent use.
type Derived[K comparable, T any] struct {
	// Revision is the revision of the objects: while it stays the same, so do they.
	Revision func(ctx context.Context) (K, error)
	// Make derives the value; was is the one before, the zero T at first. It is called once at a time.
	Make func(ctx context.Context, was T) (T, error)

	now    atomic.Pointer[derived[K, T]]
	mu     sync.Mutex
	making *making[K, T] // what is under way; guarded by mu
}

// derived is a value and the revision that it is derived from. Its objects may be newer than that, never older.
type derived[K comparable, T any] struct {
	at    K
	value T
}

// making is one call of Make. What comes of it may be read once done is closed.
type making[K comparable, T any] struct {
	at   K
	done chan struct{}

	value T
	err   error
	// over says that value and err are the outcome, also for others. It is false if the reader that made the value has given
	// up, or has panicked.
	over bool
}

// Get returns the T of the objects as they are. It waits for other readers until ctx ends.
func (d *Derived[K, T]) Get(ctx context.Context) (T, error) {
	var none T
	for waited := false; ; {
		at, err := d.Revision(ctx) // before the objects are read
		if err != nil {
			return none, err
		}
		if now := d.now.Load(); now != nil && now.at == at {
			return now.value, nil
		}
		m, mine := d.join(at)
		if m == nil {
			continue
		}
		if mine {
			d.make(ctx, m)
			return m.value, m.err
		}
		select {
		case <-m.done:
		case <-ctx.Done():
			return none, ctx.Err()
		}
		// Whoever has waited for one call knows that the next began after its own, and has read objects that are new enough.
		if m.over && (waited || m.at == at) {
			return m.value, m.err
		}
		waited = true
	}
}

// join returns the call of Make that is under way; if there is none, a new one, which is then the caller's to make. It returns
// nil if the value was made since the caller looked.
func (d *Derived[K, T]) join(at K) (m *making[K, T], mine bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.making != nil {
		return d.making, false
	}
	if now := d.now.Load(); now != nil && now.at == at {
		return nil, false
	}
	d.making = &making[K, T]{at: at, done: make(chan struct{})}
	return d.making, true
}

// make calls Make, and tells those who wait.
func (d *Derived[K, T]) make(ctx context.Context, m *making[K, T]) {
	defer func() {
		d.mu.Lock()
		d.making = nil
		d.mu.Unlock()
		close(m.done)
	}()
	var was T
	if now := d.now.Load(); now != nil {
		was = now.value
	}
	m.value, m.err = d.Make(ctx, was)
	if m.err == nil {
		d.now.Store(&derived[K, T]{m.at, m.value})
	}
	m.over = m.err == nil || ctx.Err() == nil
}
