package pebble

import (
	"context"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// group is the transactions that wait for the disk together.
type group struct {
	batches []*pebble.Batch
	rev     int64         // the newest
	done    chan struct{} // closed once they are on disk, or the database is broken
}

// durability knows up to which revision transactions are on disk. The tree writes them in the order of their revisions, so one that is
// on disk is so with all before it.
type durability struct {
	told func(rev int64) // is told, in order, what is on disk
	fail func(err error) // is told that the disk has failed
	err  func() error    // why the database is broken
	work chan struct{}   // a token: there is a group
	end  chan struct{}   // closed by stop
	left chan struct{}   // closed when run has ended

	mu      sync.Mutex
	next    *group // takes what comes; nil: nothing has come
	syncing *group // is being written; nil: none
	rev     int64  // on disk
}

// add has a batch waited for. It is called in the order of revisions, after the batch was applied.
func (d *durability) add(b *pebble.Batch, rev int64) *group {
	d.mu.Lock()
	if d.next == nil {
		d.next = &group{done: make(chan struct{})}
	}
	g := d.next
	g.batches, g.rev = append(g.batches, b), rev
	d.mu.Unlock()
	select {
	case d.work <- struct{}{}:
	default:
	}
	return g
}

// pending returns the group with the newest revision, which readers of it have to wait for; nil: all is on disk.
func (d *durability) pending() *group {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.next != nil {
		return d.next
	}
	return d.syncing
}

// wait returns once a group (nil: none) is on disk.
func (d *durability) wait(ctx context.Context, g *group) error {
	if g == nil {
		return nil
	}
	select {
	case <-g.done:
		return d.err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// head is the newest revision on disk.
func (d *durability) head() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rev
}

// run waits for the disk, group by group, until stop is called and nothing is left.
func (d *durability) run() {
	defer close(d.left)
	for {
		select {
		case <-d.work:
			d.sync()
		case <-d.end:
			d.sync()
			return
		}
	}
}

func (d *durability) sync() {
	d.mu.Lock()
	g := d.next
	d.next, d.syncing = nil, g
	d.mu.Unlock()
	if g == nil {
		return
	}
	var failed error
	for _, b := range g.batches {
		if err := b.SyncWait(); err != nil && failed == nil {
			failed = err
		}
		if err := b.Close(); err != nil && failed == nil {
			failed = err
		}
	}
	if failed != nil {
		d.fail(failed)
	}
	if d.err() == nil {
		d.advance(g.rev)
	}
	d.mu.Lock()
	d.syncing = nil
	d.mu.Unlock()
	close(g.done)
}

// advance has readers see all up to a revision.
func (d *durability) advance(rev int64) {
	d.mu.Lock()
	d.rev = rev
	d.mu.Unlock()
	d.told(rev)
}

func (d *durability) stop() {
	close(d.end)
	<-d.left
}
