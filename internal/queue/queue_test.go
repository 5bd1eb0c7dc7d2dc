package queue_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/guard"
	"github.com/kanzen-io/kanzen/internal/queue"
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
	q.Run(ctx, func(_ context.Context, name string) error {
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
