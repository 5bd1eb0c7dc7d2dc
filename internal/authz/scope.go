package authz

import (
	"sync"
	"sync/atomic"

	"github.com/kanzen-io/kanzen/internal/scope"
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

// Changes tells that what an authorizer allows has changed. The zero value is ready.
type Changes struct {
	version atomic.Uint64

	mu   sync.Mutex
	next chan struct{} // closed with the next change; nil: nobody waits
}

// Tell is called after each change, once new requests are judged by it.
func (c *Changes) Tell() {
	c.version.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}

// Version is another number after each change. Who reads it before judging, and again later, knows whether the judgement still holds.
func (c *Changes) Version() uint64 { return c.version.Load() }

// Next returns a channel that is closed with the next change.
func (c *Changes) Next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = make(chan struct{})
	}
	return c.next
}
