package schema

import (
	"runtime"
	"sync"
	"time"
	"weak"
)

// Cache lets schemas share the patterns and expressions that they have in
// common. It holds none of them itself: what no Schema uses any more goes.
type Cache struct {
	timing   Timing
	patterns shared[string, pattern]
	scopes   shared[scopeKey, scope]
	programs shared[programKey, program]
}

// Timing measures expressions: each func is called when one begins, and what it
// returns when it ends. Ratcheting is told of each update how long it took, by
// Now, to compare old values to new ones. Any of them may be nil.
type Timing struct {
	Compilation, Evaluation func() (end func())
	Ratcheting              func(took time.Duration)
	Now                     func() time.Time
}

// begin calls one of them.
func begin(f func() func()) (end func()) {
	if f == nil {
		return func() {}
	}
	return f()
}

// NewCache returns an empty cache, whose schemas are measured.
func NewCache(t Timing) *Cache {
	return &Cache{
		timing:   t,
		patterns: shared[string, pattern]{m: map[string]weak.Pointer[pattern]{}},
		scopes:   shared[scopeKey, scope]{m: map[scopeKey]weak.Pointer[scope]{}},
		programs: shared[programKey, program]{m: map[programKey]weak.Pointer[program]{}},
	}
}

func (c *Cache) pattern(text string) *pattern {
	return c.patterns.get(text, func() *pattern { return &pattern{text: text} })
}

// shared has one V for each K for as long as someone else holds it.
type shared[K comparable, V any] struct {
	mu sync.Mutex
	m  map[K]weak.Pointer[V]
}

func (s *shared[K, V]) get(key K, create func() *V) *V {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.m[key].Value(); v != nil {
		return v
	}
	v := create()
	s.m[key] = weak.Make(v)
	runtime.AddCleanup(v, s.drop, key)
	return v
}

// drop forgets a value that is gone, unless another has taken its place.
func (s *shared[K, V]) drop(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m[key].Value() == nil {
		delete(s.m, key)
	}
}
