package space

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrFull says that a disk is almost full.
var ErrFull = errors.New("the disk is almost full")

// measurementAge is how long a measurement of the free space holds.
const measurementAge = 200 * time.Millisecond

// Reserve is room on the disk of a directory that is left free, for what must be written before writes can be refused in order. It is safe
// for concurrent use.
type Reserve struct {
	Dir  string
	Need uint64 // bytes
	// Of measures; nil: Of.
	Of func(dir string) (Disk, error)
	// Now is the time; nil: time.Now.
	Now func() time.Time

	mu   sync.Mutex
	read time.Time
	err  error // of the last measurement
}

// Room returns ErrFull, with the figures, if there is too little space to write. A nil Reserve has room.
func (r *Reserve) Room() error {
	if r == nil {
		return nil
	}
	of, clock := r.Of, r.Now
	if of == nil {
		of = Of
	}
	if clock == nil {
		clock = time.Now
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := clock()
	if now.Sub(r.read) < measurementAge {
		return r.err
	}
	r.read, r.err = now, nil
	d, err := of(r.Dir)
	if err == nil && d.Free < r.Need { // what cannot be measured is not refused
		r.err = fmt.Errorf("%w: of the disk of %s %d MiB are free, writing takes %d MiB", ErrFull, r.Dir, d.Free>>20, r.Need>>20)
	}
	return r.err
}
