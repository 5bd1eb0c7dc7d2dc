package controllers

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/base/queue"
)

// What was looked at before a source has begun may be deleted, and the source never tells of that. So nothing is looked at before.
func TestWorkAwaitsSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		log := slog.New(slog.DiscardHandler)
		c := &Config{Clock: clock.RealClock{}, Guard: guard.New(log, clock.RealClock{}, nil), Log: log}
		var did []string
		late := make(chan struct{})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			c.work(ctx, "test", func(_ context.Context, name string) (time.Duration, error) {
				did = append(did, name)
				return 0, nil
			}, func(ctx context.Context, q *queue.Queue, begun, ended func()) {
				q.Add("first")
				begun()
				begun()
				context.AfterFunc(ctx, ended)
			}, func(_ context.Context, _ *queue.Queue, _, ended func()) { // has nothing more to tell
				ended()
			}, func(ctx context.Context, _ *queue.Queue, begun, ended func()) {
				go func() {
					<-late
					did = append(did, "begun")
					begun()
					context.AfterFunc(ctx, ended)
				}()
			})
		}()
		synctest.Wait()
		if did != nil {
			t.Errorf("before all sources have begun: %v", did)
		}
		close(late)
		synctest.Wait()
		if !slices.Equal(did, []string{"begun", "first"}) {
			t.Errorf("%v", did)
		}
		cancel()
		<-ended
	})
}
