// Package trim gives a process's memory back to the system when it falls quiet.
package trim

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"k8s.io/utils/clock"
)

// trimmer gives memory back to the system when the server falls quiet. The
// garbage collector leaves as much garbage as there is live data until the next
// cycle, which a server without requests never reaches; many control planes
// on one host are mostly that.
type trimmer struct {
	clock clock.WithTicker
	// read returns the bytes allocated since the start and those alive at the
	// end of the last cycle; trim collects and returns what is free.
	read func() (allocated, live uint64)
	trim func()
}

const (
	trimEvery = time.Second
	// quiet is how much is allocated in a second in which nothing happens.
	quiet = 1 << 20
	// worthwhile is the least garbage, in bytes and as a part of what is alive,
	// for which collecting is worth its time.
	worthwhile     = 4 << 20
	worthwhilePart = 4
)

// Run gives memory back until ctx ends.
func Run(ctx context.Context, clk clock.WithTicker) { newTrimmer(clk).run(ctx) }

func newTrimmer(clk clock.WithTicker) *trimmer {
	return &trimmer{clock: clk, read: readMemory, trim: debug.FreeOSMemory}
}

func readMemory() (allocated, live uint64) {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64(), s[1].Value.Uint64()
}

// run looks once a second until ctx ends.
func (t *trimmer) run(ctx context.Context) {
	ticker := t.clock.NewTicker(trimEvery)
	defer ticker.Stop()
	var last, trimmed uint64
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		now, live := t.read()
		if now-last < quiet && now-trimmed > max(worthwhile, live/worthwhilePart) {
			t.trim()
			trimmed = now
		}
		last = now
	}
}
