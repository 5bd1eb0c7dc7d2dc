package apps

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	"github.com/kanzen-io/kanzen/internal/engine"
)

// checkNumber rejects objects with an annotation that must be a number and is not. The check is part of decoding,
// because the annotation replaces a field of earlier versions.
func checkNumber(annotation string) func(ctx context.Context, obj engine.Object) (engine.Object, error) {
	return func(_ context.Context, obj engine.Object) (engine.Object, error) {
		if v := obj.GetAnnotations()[annotation]; v != "" {
			if _, err := strconv.ParseInt(v, 10, 64); err != nil {
				return nil, fmt.Errorf("annotation %s: %w", annotation, err)
			}
		}
		return obj, nil
	}
}

// setAnnotation sets an annotation without changing a map that other objects may share.
func setAnnotation(obj engine.Object, key, value string) {
	a := maps.Clone(obj.GetAnnotations())
	if a == nil {
		a = map[string]string{}
	}
	a[key] = value
	obj.SetAnnotations(a)
}
