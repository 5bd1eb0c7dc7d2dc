// Package trim returns a process's unused memory to the system when it is idle.
package trim

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"k8s.io/utils/clock"
)

// trimmer returns memory to the system when the server becomes idle. Between cycles of the garbage collector, there may
// be as much garbage as live data, and a server without requests never reaches the next cycle. Many control planes on
// one host are mostly idle.
type trimmer struct {
	clock clock.WithTicker
	// read returns the bytes allocated since the start and those live at the end of the last cycle; trim collects
	// garbage and returns free memory.
	read func() (allocated, live uint64)
	trim func()
}

const (
	trimEvery = time.Second
	// quiet bounds the bytes that an idle server allocates in a second.
	quiet = 1 << 20
	// worthwhile is the least garbage, in bytes and as a fraction of live data, that is worth a collection at once.
	worthwhile     = 4 << 20
	worthwhilePart = 4
	// restedPart is the fraction once there was none for a second for each liveASecond bytes of live data. A collection looks at all of them,
	// which takes about a second for a gigabyte.
	restedPart  = 16
	liveASecond = 64 << 20
)

// Run returns memory until ctx ends.
func Run(ctx context.Context, clk clock.WithTicker) {
	var p program
	defer p.close()
	t := trimmer{clock: clk, read: readMemory, trim: func() {
		debug.FreeOSMemory()
		p.unmap()
	}}
	t.run(ctx)
}

func readMemory() (allocated, live uint64) {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64(), s[1].Value.Uint64()
}

// run checks once a second until ctx ends.
func (t *trimmer) run(ctx context.Context) {
	ticker := t.clock.NewTicker(trimEvery)
	defer ticker.Stop()
	var last, trimmed uint64
	var rested time.Duration // since the last collection
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		rested += trimEvery
		now, live := t.read()
		part := uint64(worthwhilePart)
		if uint64(rested.Seconds())*liveASecond > live {
			part = restedPart
		}
		if now-last < quiet && now-trimmed > max(worthwhile, live/part) {
			t.trim()
			trimmed, rested = now, 0
		}
		last = now
	}
}
