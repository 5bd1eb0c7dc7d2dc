// Package cache remembers results that are expensive to compute and never change, such as the verification of a
// signature. It is bounded and needs no clock; callers check what expires.
package cache

import "sync"

// size bounds the entries of each of the two generations.
const size = 2048

// Cache remembers values by key. When the young generation is full it becomes the old one, and the previous old one is
// dropped; Get moves an entry back to the young one. The zero value is ready; it is safe for concurrent use.
type Cache[K comparable, V any] struct {
	mu         sync.Mutex
	young, old map[K]*V // guarded by mu
}

// Get returns the value of a key, or nil. The caller must not change it.
func (c *Cache[K, V]) Get(key K) *V {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := c.young[key]; v != nil {
		return v
	}
	v := c.old[key]
	if v != nil {
		c.add(key, v)
	}
	return v
}

// Put remembers a value.
func (c *Cache[K, V]) Put(key K, v *V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(key, v)
}

// add is called with mu held.
func (c *Cache[K, V]) add(key K, v *V) {
	if c.young == nil || len(c.young) >= size {
		c.old, c.young = c.young, map[K]*V{}
	}
	c.young[key] = v
}
