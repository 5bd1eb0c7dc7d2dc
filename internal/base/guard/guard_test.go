package guard_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/base/guard"
)

func TestCall(t *testing.T) {
	var log bytes.Buffer
	panics := 0
	g := guard.New(slog.New(slog.NewTextHandler(&log, nil)), testclock.NewFakeClock(time.Time{}), func() { panics++ })
	plain := errors.New("plain")
	if err := g.Call("work", func() error { return plain }); err != plain || panics != 0 {
		t.Errorf("got %v, %d panics", err, panics)
	}
	err := g.Call("work", func() error { panic("boom") })
	var p *guard.PanicError
	if !errors.As(err, &p) || p.Fault != "boom" || panics != 1 {
		t.Errorf("got %v, %d panics", err, panics)
	}
	for _, want := range []string{"work=work", "panic=boom", "guard_test.go"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is missing in the log:\n%s", want, &log)
		}
	}
}

// Work that panics runs again after a pause, until it returns or its context ends.
func TestKeep(t *testing.T) {
	clk := testclock.NewFakeClock(time.Time{})
	g := guard.New(slog.New(slog.DiscardHandler), clk, nil)
	runs := make(chan int)
	done := make(chan struct{})
	go func() {
		defer close(done)
		n := 0
		g.Keep(t.Context(), "work", func(context.Context) {
			n++
			runs <- n
			if n < 3 {
				panic(n)
			}
		})
	}()
	for n := 1; n <= 3; n++ {
		if got := <-runs; got != n {
			t.Fatalf("run %d, want %d", got, n)
		}
		for n < 3 && !clk.HasWaiters() { // the fake clock does not signal waiters
			runtime.Gosched()
		}
		clk.Step(time.Minute)
	}
	<-done
	ended, end := context.WithCancel(t.Context())
	end()
	g.Keep(ended, "work", func(context.Context) { panic("again") })
}
