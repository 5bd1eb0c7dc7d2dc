package controllers

import (
	"context"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// This file lets a controller wait for the first object that it is for. Most control planes have objects of few kinds, and a process
// may have thousands of control planes: a controller that runs has queues, views and goroutines.

// dormant has the controllers that wait. It is a store.Tap.
type dormant struct {
	c    *Config
	lost chan struct{} // has an element if events are missing

	mu    sync.Mutex
	waits map[string][]func() // by the prefix of keys: what starts those that wait; guarded by mu
	ended bool                // nothing is started any more; guarded by mu
}

// begin starts a controller once there is an object of one of its kinds: at once if it has none, or if one is not served here, so
// that nobody could tell.
func (d *dormant) begin(kinds []schema.GroupResource, start func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var prefixes []string
	now := d.c.Catalog.Now()
	for _, gr := range kinds {
		r := now.Resource(gr)
		if r == nil || !r.Listed || len(now.Local(r)) == 0 || r.Prefix() == "" {
			prefixes = nil
			break
		}
		prefixes = append(prefixes, r.Prefix())
	}
	if len(prefixes) == 0 {
		start()
		return
	}
	if d.waits == nil {
		d.waits, d.lost = map[string][]func(){}, make(chan struct{}, 1)
	}
	start = sync.OnceFunc(start)
	for _, p := range prefixes {
		d.waits[p] = append(d.waits[p], start)
	}
}

// run looks for objects until ctx ends or nobody waits.
func (d *dormant) run(ctx context.Context) {
	d.end(false) // a panic may have ended it before
	defer d.end(true)
	defer d.c.Store.Tap(d)() // before the scan, so that nothing is missed
	for {
		for _, prefix := range d.left() {
			if err := d.c.Store.Scan(ctx, prefix, func(key string, _ int64, _ []byte) bool { d.found(key); return false }); err != nil {
				d.Lost() // it is tried again
			}
		}
		if len(d.left()) == 0 {
			return
		}
		select {
		case <-d.lost:
		case <-ctx.Done():
			return
		}
		select {
		case <-d.c.Clock.After(time.Second):
		case <-ctx.Done():
			return
		}
	}
}

// end says whether nothing is started any more.
func (d *dormant) end(ended bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = ended
}

// left returns the prefixes for which somebody waits.
func (d *dormant) left() (out []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for prefix := range d.waits {
		out = append(out, prefix)
	}
	return out
}

// found starts those who wait for an object like that with a key.
func (d *dormant) found(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for prefix, starts := range d.waits {
		if d.ended || !strings.HasPrefix(key, prefix) {
			continue
		}
		for _, start := range starts {
			start()
		}
		delete(d.waits, prefix)
	}
}

// Put is part of store.Tap.
func (d *dormant) Put(key string, _ int64, _ []byte) { d.found(key) }

// Deleted is part of store.Tap.
func (d *dormant) Deleted(string, int64) {}

// Lost is part of store.Tap.
func (d *dormant) Lost() {
	select {
	case d.lost <- struct{}{}:
	default:
	}
}
