package trim

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

// TestTrim checks that memory is returned once in each idle time, and not if there is little garbage.
func TestTrim(t *testing.T) {
	seconds := []struct {
		allocated, live uint64
		trims           bool
	}{
		{100 << 20, 20 << 20, false}, // busy
		{100 << 20, 20 << 20, true},  // idle after many allocations
		{100 << 20, 20 << 20, false}, // only once
		{103 << 20, 20 << 20, false},
		{103 << 20, 20 << 20, false}, // too little
		{110 << 20, 20 << 20, false},
		{110 << 20, 20 << 20, true},
		{130 << 20, 400 << 20, false},
		{130 << 20, 400 << 20, false}, // little compared with live data
		{140 << 20, 200 << 20, false}, // busy
		{140 << 20, 200 << 20, true},  // less than a quarter, but nothing was collected for long
		{180 << 20, 200 << 20, false}, // busy
		{180 << 20, 200 << 20, false}, // collected not long ago
		{180 << 20, 200 << 20, false},
		{240 << 20, 200 << 20, false}, // busy
		{240 << 20, 200 << 20, true},  // more than a quarter
	}
	synctest.Test(t, func(t *testing.T) {
		var second atomic.Int64
		trims := make([]bool, len(seconds))
		tr := &trimmer{clock: clock.RealClock{}, trim: func() { trims[second.Load()] = true }}
		done := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		tr.read = func() (uint64, uint64) {
			s := seconds[second.Load()]
			return s.allocated, s.live
		}
		go func() { tr.run(ctx); close(done) }()
		for n, s := range seconds {
			second.Store(int64(n))
			time.Sleep(trimEvery)
			synctest.Wait()
			if trims[n] != s.trims {
				t.Errorf("second %d: trimmed: %v, want %v", n, trims[n], s.trims)
			}
		}
		cancel()
		<-done
	})
}
