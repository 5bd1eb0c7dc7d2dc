package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/store/memory"
)

// Who waits for a follower does not wait for an event that never comes: a view that is loaded again is at a later revision
// than the last change that its follower was told of.
func TestCatchUpWithViewLoadedAgain(t *testing.T) {
	s := run(t, memory.New(clock.RealClock{}))
	v, other := s.View(things), s.View(Kind{Prefix: "others/"})
	create(t, v, "ns/a", "1")
	p := NewProgress(v)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		indexOf(v).Follow(ctx, func(Change[*string]) {}, p.Reached)
	}()
	for n := range 10 {
		if err := p.CatchUp(ctx); err != nil {
			t.Fatal(err)
		}
		create(t, other, fmt.Sprintf("ns/%d", n), "1")
		v.reset()
	}
	if err := p.CatchUp(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-ended
}
