// Package live keeps what is made of other things as they are now: discovery
// documents of definitions, for instance. It is made anew when it is asked for
// after they have changed, and not for every one of a thousand changes that
// come at once.
package live

import "sync"

// Value is a T of now. It is safe for concurrent use.
type Value[T any] struct {
	changes func() int64
	make    func() T

	mu   sync.Mutex
	made bool  // guarded by mu, as are value and at
	at   int64 // the count that value is of
	// value is the T that was last made.
	value T
}

// New returns a Value that make makes; changes counts how often what it is
// made of may have changed.
func New[T any](changes func() int64, make func() T) *Value[T] {
	return &Value[T]{changes: changes, make: make}
}

// Get returns the T of now.
func (v *Value[T]) Get() T {
	v.mu.Lock()
	defer v.mu.Unlock()
	// Counted before it is made: what comes in between makes another.
	if n := v.changes(); !v.made || n != v.at {
		v.value, v.at, v.made = v.make(), n, true
	}
	return v.value
}
