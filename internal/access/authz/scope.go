package authz

import (
	"sync"
	"sync/atomic"

	"github.com/kanzen-io/kanzen/internal/request/scope"
)

// Scoper is an authorizer that can tell, without being asked about each object, for which it allows a request. It allows, and has no
// opinion on the rest: one that denies what others may allow is no Scoper.
type Scoper interface {
	// Scope returns the objects of the resource of a for which it allows what a asks: those for which Authorize, asked with the
	// object's namespace and name, would. It looks at no other namespace than that of a, if a has one; a has no name.
	Scope(a *Attributes) scope.Set
}

// Scope allows members of the group everything.
func (Masters) Scope(a *Attributes) scope.Set {
	if isMaster(a) {
		return scope.All()
	}
	return scope.Set{}
}

// Scope allows everything.
func (AlwaysAllow) Scope(*Attributes) scope.Set { return scope.All() }

// Scope allows nothing.
func (AlwaysDeny) Scope(*Attributes) scope.Set { return scope.Set{} }

// Changes tells that what authorizers allow has changed: to everybody, or to one node. Each change has a number. The zero value is ready.
type Changes struct {
	version atomic.Uint64 // the number of the newest change for everybody

	mu    sync.Mutex
	count uint64                   // of all changes
	next  map[string]chan struct{} // closed with the next change for a node, or for everybody (""), that somebody waits for
}

// Tell is called after each change for everybody, once new requests are judged by it.
func (c *Changes) Tell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	c.version.Store(c.count)
	for _, next := range c.next {
		close(next)
	}
	clear(c.next)
}

// TellOf is called with each change for one node, and returns the number of the change.
func (c *Changes) TellOf(node string) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	if next, waits := c.next[node]; waits {
		close(next)
		delete(c.next, node)
	}
	return c.count
}

// Version is another number after each change for everybody. Who reads it before judging, and again later, knows whether the judgement
// still holds.
func (c *Changes) Version() uint64 { return c.version.Load() }

// Next returns a channel that is closed with the next change for a node; empty: for everybody.
func (c *Changes) Next(node string) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := c.next[node]
	if next == nil {
		next = make(chan struct{})
		if c.next == nil {
			c.next = map[string]chan struct{}{}
		}
		c.next[node] = next
	}
	return next
}
