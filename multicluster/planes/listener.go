package planes

import (
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
)

// listener is a handler of the events of one plane. They are delivered in their order, by a goroutine that lives only while there
// are some: many planes with nothing to do cost none, and a slow handler holds up nobody else.
type listener struct {
	handler toolscache.ResourceEventHandler
	plane   string
	resyncs bool
	running *sync.WaitGroup
	synced  chan struct{} // closed when the handler was told of all that was there

	mu         sync.Mutex
	queue      []event // guarded by mu
	delivering bool    // whether there is a goroutine; guarded by mu
	closed     bool    // guarded by mu
}

// event is something that has happened to an object: only now means added, only old deleted, and neither that what was there is through.
type event struct {
	old, now  any
	initially bool
}

// push has an event delivered. It does not block.
func (l *listener) push(e event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if l.queue = append(l.queue, e); !l.delivering {
		l.delivering = true
		l.running.Go(l.deliver)
	}
}

// deliver delivers until there is nothing left.
func (l *listener) deliver() {
	for {
		l.mu.Lock()
		batch := l.queue
		l.queue = nil
		if len(batch) == 0 {
			l.delivering = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		for _, e := range batch {
			if l.isClosed() {
				break
			}
			l.handle(e)
		}
	}
}

func (l *listener) handle(e event) {
	switch {
	case e.old != nil && e.now != nil:
		l.handler.OnUpdate(e.old, e.now)
	case e.now != nil:
		l.handler.OnAdd(e.now, e.initially)
	case e.old != nil:
		l.handler.OnDelete(e.old)
	default:
		close(l.synced)
	}
}

// close drops what was not delivered yet.
func (l *listener) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed, l.queue = true, nil
}

func (l *listener) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// HasSynced is part of toolscache.ResourceEventHandlerRegistration.
func (l *listener) HasSynced() bool { return done(l.synced) }

// HasSyncedChecker is part of toolscache.ResourceEventHandlerRegistration.
func (l *listener) HasSyncedChecker() toolscache.DoneChecker {
	return checker{"handler of plane " + l.plane, l.synced}
}

// checker is a toolscache.DoneChecker.
type checker struct {
	name string
	is   <-chan struct{}
}

func (c checker) Name() string          { return c.name }
func (c checker) Done() <-chan struct{} { return c.is }

func done(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
