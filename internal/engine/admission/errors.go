package admission

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
)

// Forbidden refuses a write for a reason. A reason that is a Forbidden error
// itself is returned as it is.
func Forbidden(a *Attributes, reason error) error {
	if apierrors.IsForbidden(reason) {
		return reason
	}
	return apierrors.NewForbidden(a.Resource.GroupResource(), NameOf(a), reason)
}

// Forbiddenf is Forbidden with a reason in words.
func Forbiddenf(a *Attributes, format string, args ...any) error {
	return Forbidden(a, fmt.Errorf(format, args...))
}

// NameOf names the object of a write, also if its name is not generated yet.
func NameOf(a *Attributes) string {
	if a.Name != "" {
		return a.Name
	}
	if a.Object != nil {
		if m, err := meta.Accessor(a.Object); err == nil {
			if m.GetName() != "" {
				return m.GetName()
			}
			if m.GetGenerateName() != "" {
				return m.GetGenerateName()
			}
		}
	}
	return "Unknown"
}

// WrongType reports an object of another type than its resource has.
func WrongType(a *Attributes) error {
	return apierrors.NewBadRequest(fmt.Sprintf("unexpected type %T of %s", a.Object, a.Resource.Resource))
}
