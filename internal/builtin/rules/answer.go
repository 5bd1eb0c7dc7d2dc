package rules

import (
	"context"

	"github.com/kanzen-io/kanzen/internal/engine"
)

// Answer adapts a typed func that answers a review for Resource.Create.
func Answer[T engine.Object](f func(ctx context.Context, in T) (T, error)) func(ctx context.Context, obj engine.Object) (engine.Object, error) {
	return func(ctx context.Context, obj engine.Object) (engine.Object, error) {
		out, err := f(ctx, obj.(T))
		if err != nil {
			return nil, err
		}
		return out, nil
	}
}
