package schema

import (
	"runtime"
	"sync"
	"time"
	"weak"
)

// Cache lets schemas share equal patterns and expressions. It does not keep them alive: an entry that no Schema uses is
// dropped.
type Cache struct {
	timing   Timing
	patterns shared[string, pattern]
	scopes   shared[scopeKey, scope]
	programs shared[programKey, program]
}

// Timing measures expressions: each func is called when an evaluation or compilation begins, and the func it returns
// when it ends. Ratcheting is called once for each update with the time, by Now, that comparing old and new values
// took. Any of them may be nil.
type Timing struct {
	Compilation, Evaluation func() (end func())
	Ratcheting              func(took time.Duration)
	Now                     func() time.Time
}

// begin calls f if it is not nil.
func begin(f func() func()) (end func()) {
	if f == nil {
		return func() {}
	}
	return f()
}

// NewCache returns an empty cache; t measures the schemas that use it.
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

// shared holds one V for each K, as long as some other code references it.
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

// drop removes a value that was garbage collected, unless a new one has taken its place.
func (s *shared[K, V]) drop(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m[key].Value() == nil {
		delete(s.m, key)
	}
}
