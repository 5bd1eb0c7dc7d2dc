package engine

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// An error is told once; another value, field or reason is another error.
func TestOnce(t *testing.T) {
	a, b := field.NewPath("metadata", "labels"), field.NewPath("metadata", "name")
	got := once(field.ErrorList{
		field.Invalid(a, "x", "bad"), field.Invalid(a, "x", "bad"), field.Invalid(a, "y", "bad"), field.Invalid(b, "x", "bad"),
		field.Forbidden(a, "bad"), field.Invalid(a, "x", "worse"), field.Invalid(a, "x", "bad"),
	})
	if len(got) != 5 {
		t.Errorf("%d errors: %v", len(got), got)
	}
}
