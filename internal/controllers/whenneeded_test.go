package controllers

import (
	"context"
	"slices"
	"testing"

	"github.com/kanzen-io/kanzen/internal/base/queue"
)

// What an object waits for may go after the object was looked at, and before a source that is begun for it follows. So the object is looked
// at again when the source has begun, once.
func TestWhenNeeded(t *testing.T) {
	needed := make(chan struct{}, 1)
	var did []string
	s := whenNeeded(needed, func(_ context.Context, _ *queue.Queue, caught func(int64)) {
		did = append(did, "follow")
		caught(7)
		caught(8)
	}, func(context.Context, *queue.Queue) { did = append(did, "again") })
	whole := func(ctx context.Context) {
		ended := make(chan struct{})
		s(ctx, nil, func() {}, func() { close(ended) })
		<-ended
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if whole(ctx); did != nil {
		t.Errorf("nobody needs it: %v", did)
	}
	need(needed)
	need(needed) // more than one may
	if whole(t.Context()); !slices.Equal(did, []string{"follow", "again"}) {
		t.Errorf("%v", did)
	}
}
