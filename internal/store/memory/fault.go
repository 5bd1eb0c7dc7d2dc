package memory

import (
	"context"
	"slices"
	"sync"
)

// Operation is a method of DB, or some of them.
type Operation int

// The operations. Watch stands for its beginning; what is under way is broken
// off by DB.Break.
const (
	Head Operation = 1 << iota
	Ping
	Size
	Range
	Commit
	Watch
	Compact
	Grant
)

// Fault is what becomes of one operation.
type Fault struct {
	// Of says which operations count; 0: all.
	Of Operation
	// Skip is how many of them are let pass before.
	Skip int
	// Before is called before the operation: it may wait, do something that
	// comes in between, or end the operation's context. Optional.
	Before func(ctx context.Context)
	// Err is what is answered; nil: what the operation has to say.
	Err error
	// Lost lets the operation be carried out in spite of Err, as when the
	// answer does not arrive.
	Lost bool
}

// Inject lets one operation to come go wrong. Each of several faults counts for
// itself; of those whose turn it is, the first injected is taken, and the
// others wait for the next operation.
func (d *DB) Inject(f Fault) {
	d.faults.mu.Lock()
	defer d.faults.mu.Unlock()
	d.faults.all = append(d.faults.all, f)
}

// Injected says how many faults are still to come.
func (d *DB) Injected() int {
	d.faults.mu.Lock()
	defer d.faults.mu.Unlock()
	return len(d.faults.all)
}

type faults struct {
	mu  sync.Mutex
	all []Fault
}

// next returns the fault of an operation that begins; none is the zero value.
func (f *faults) next(op Operation) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	due := -1
	for n := range f.all {
		switch x := &f.all[n]; {
		case x.Of != 0 && x.Of&op == 0:
		case x.Skip > 0:
			x.Skip--
		case due < 0:
			due = n
		}
	}
	if due < 0 {
		return Fault{}
	}
	out := f.all[due]
	f.all = slices.Delete(f.all, due, due+1)
	return out
}
