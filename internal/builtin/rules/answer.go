package rules

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
)

// Answer adapts a typed func that answers a review for Resource.Create.
func Answer[T engine.Object](f func(ctx context.Context, in T) (T, error)) func(ctx context.Context, obj engine.Object, _ *metav1.CreateOptions) (engine.Object, error) {
	return func(ctx context.Context, obj engine.Object, _ *metav1.CreateOptions) (engine.Object, error) {
		out, err := f(ctx, obj.(T))
		if err != nil {
			return nil, err
		}
		return out, nil
	}
}
