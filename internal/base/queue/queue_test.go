package queue_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/base/queue"
)

// A name is retried after an error or panic; other names do not wait.
func TestRun(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	panics := 0
	q := queue.New("test", clock.RealClock{}, guard.New(log, clock.RealClock{}, func() { panics++ }), nil, log)
	for _, name := range []string{"panics", "fails", "works"} {
		q.Add(name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	looks := map[string]int{}
	left := 5
	q.Run(ctx, 1, func(_ context.Context, name string) error {
		looks[name]++
		if left--; left == 0 {
			cancel()
		}
		if looks[name] == 1 {
			switch name {
			case "panics":
				panic("boom")
			case "fails":
				return errors.New("not yet")
			}
		}
		return nil
	})
	if panics != 1 || looks["panics"] != 2 || looks["fails"] != 2 || looks["works"] != 1 {
		t.Errorf("%d panics, looks %v", panics, looks)
	}
}

// A name that is to be added later is added at the earliest of its times, once; after the end it is not.
func TestAddAfter(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
	q := queue.New("test", clk, guard.New(log, clk, nil), nil, log)
	q.AddAfter("a", time.Minute)
	q.AddAfter("a", time.Second)
	q.AddAfter("a", time.Hour)
	q.AddAfter("b", 2*time.Second)
	q.AddAfter("c", 0)
	looked, done := make(chan string), make(chan struct{})
	go func() {
		defer close(done)
		q.Run(context.Background(), 1, func(_ context.Context, name string) error {
			looked <- name
			return nil
		})
	}()
	var got []string
	for _, pause := range []time.Duration{0, time.Second, time.Second} {
		clk.Step(pause)
		got = append(got, <-looked)
	}
	clk.Step(2 * time.Hour)
	q.AddAfter("d", time.Second)
	q.ShutDown()
	<-done
	q.AddAfter("e", time.Second)
	clk.Step(time.Hour)
	if want := []string{"c", "a", "b"}; !slices.Equal(got, want) || q.Len() != 0 || clk.HasWaiters() {
		t.Errorf("%v, want %v; %d left, timers %v", got, want, q.Len(), clk.HasWaiters())
	}
}

// No more names are processed at a time than there are workers; the others wait in the queue, where a name that is added
// twice is there once.
func TestWorkers(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	q := queue.New("test", clock.RealClock{}, guard.New(log, clock.RealClock{}, nil), nil, log)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begun, end := make(chan string, 10), make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		q.Run(ctx, 2, func(_ context.Context, name string) error {
			begun <- name
			<-end
			return nil
		})
	}()
	for _, name := range []string{"a", "b", "c", "d", "d", "c"} {
		q.Add(name)
	}
	first := []string{<-begun, <-begun}
	if q.Len() != 2 || len(begun) != 0 {
		t.Errorf("%v are processed by two workers, and %d more; %d wait", first, len(begun), q.Len())
	}
	close(end)
	all := append(first, <-begun, <-begun)
	slices.Sort(all)
	cancel()
	<-done
	if want := []string{"a", "b", "c", "d"}; !slices.Equal(all, want) || len(begun) != 0 {
		t.Errorf("%v, want %v; %d more", all, want, len(begun))
	}
}

// A name that fails again and again is looked at after pauses that are doubled, up to the longest one; once it has worked they begin anew.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		q := queue.New("test", clock.RealClock{}, guard.New(log, clock.RealClock{}, nil), nil, log)
		ctx, cancel := context.WithCancel(t.Context())
		last := time.Now()
		var got []time.Duration
		q.Add("a")
		q.Run(ctx, 1, func(context.Context, string) error {
			got, last = append(got, time.Since(last)), time.Now()
			switch len(got) {
			case 11:
				q.Add("a")
				return nil
			case 13:
				cancel()
			}
			return errors.New("not yet")
		})
		const ms = time.Millisecond
		want := []time.Duration{0, 20 * ms, 40 * ms, 80 * ms, 160 * ms, 320 * ms, 640 * ms, 1280 * ms, 2560 * ms, 5000 * ms, 5000 * ms, 0, 20 * ms}
		if !slices.Equal(got, want) {
			t.Errorf("pauses %v, want %v", got, want)
		}
	})
}
