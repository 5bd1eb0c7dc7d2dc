package memory

import (
	"context"
	"slices"
	"sync"
)

// Operation is a set of methods of DB.
type Operation int

// The operations. Watch stands for the start of a watch; DB.Break breaks off
// those under way.
const (
	Head Operation = 1 << iota
	Ping
	Size
	Range
	Commit
	Watch
	Compact
)

// Fault says how one operation goes wrong.
type Fault struct {
	// Of says which operations count; 0: all.
	Of Operation
	// Skip is how many of them pass first.
	Skip int
	// Before is called before the operation: it may wait, do another operation
	// first, or end the operation's context. Optional.
	Before func(ctx context.Context)
	// Err is the error returned; nil: the result of the operation itself.
	Err error
	// Lost carries out the operation in spite of Err, as when the answer is
	// lost.
	Lost bool
}

// Inject makes one future operation go wrong. Each fault counts operations by
// itself. If several faults are due for an operation, the one injected first
// applies, and the others wait for the next operation.
func (d *DB) Inject(f Fault) {
	d.faults.mu.Lock()
	defer d.faults.mu.Unlock()
	d.faults.all = append(d.faults.all, f)
}

// Injected returns the number of faults that have not applied yet.
func (d *DB) Injected() int {
	d.faults.mu.Lock()
	defer d.faults.mu.Unlock()
	return len(d.faults.all)
}

type faults struct {
	mu  sync.Mutex
	all []Fault
}

// next returns the fault for an operation that begins, or the zero value.
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
