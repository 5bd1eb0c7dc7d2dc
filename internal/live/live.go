// Package live keeps values that are derived from changing data, such as discovery documents of definitions. A value is
// derived again when it is requested after a change, not at every one of a thousand concurrent changes.
package live

import "sync"

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
