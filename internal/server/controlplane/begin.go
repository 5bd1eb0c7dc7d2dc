package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kanzen-io/kanzen/internal/base/guard"
)

// patience is how long an etcd that nothing else can bring back may refuse the first objects: a disk can be slow.
const patience = time.Minute

// Begin creates everything. It tries again while etcd or a KMS plugin cannot be reached; bounded says that there is no use in that after a
// minute.
func (b *Bootstrapper) Begin(ctx context.Context, bounded bool) error {
	begin := b.Clock.Now()
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		attempt, cancel := context.WithTimeout(ctx, 30*time.Second)
		err := b.Run(attempt)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		more, err := firstOf(err)
		if bounded && b.Clock.Since(begin) > patience {
			return fmt.Errorf("make the first objects: %w (and %d errors more)", err, more)
		}
		b.Log.Warn("could not make the first objects, trying again", "error", err, "errorsMore", more)
		select {
		case <-b.Clock.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// firstOf returns the first of the errors that an error holds, and how many more there are.
func firstOf(err error) (more int, first error) {
	var many interface{ Unwrap() []error }
	if !errors.As(err, &many) || len(many.Unwrap()) == 0 {
		return 0, err
	}
	return len(many.Unwrap()) - 1, many.Unwrap()[0]
}

// Upkeep is what keeps the objects that Begin has made.
func (b *Bootstrapper) Upkeep() []guard.Task {
	after := b.Clock.After
	warn := func(what string) func(error) { return func(err error) { b.Log.Warn(what, "error", err) } }
	return []guard.Task{
		{Name: "repair of service addresses", Run: b.Repair.Run},
		guard.Quiet("default range of service addresses", func(ctx context.Context) { b.Range.Run(ctx, after) }),
		guard.Quiet("first objects", func(ctx context.Context) {
			b.Keep(ctx, after, warn("could not make one of the first objects, trying again"))
		}),
		guard.Quiet("lease of this server", func(ctx context.Context) { b.Identity.Run(ctx, after) }),
		guard.Quiet("authentication of extension servers", func(ctx context.Context) {
			b.AuthInfo.Run(ctx, after, warn("could not tell extension servers how users are known"))
		}),
	}
}
