package admissiontest

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// Create describes the creation of an object.
func Create(gr schema.GroupResource, obj admission.Object) *admission.Attributes {
	return &admission.Attributes{
		Operation: admission.Create, Resource: gr.WithVersion("v1"), Namespace: obj.GetNamespace(), Name: obj.GetName(),
		Object: obj, User: &user.DefaultInfo{Name: "someone"},
	}
}

// Update describes an update of an object, or of its subresource.
func Update(gr schema.GroupResource, subresource string, obj, old admission.Object) *admission.Attributes {
	a := Create(gr, obj)
	a.Operation, a.Subresource, a.OldObject = admission.Update, subresource, old
	return a
}

// Delete describes the deletion of an object.
func Delete(gr schema.GroupResource, old admission.Object) *admission.Attributes {
	a := Create(gr, old)
	a.Operation, a.Object, a.OldObject = admission.Delete, nil, old
	return a
}

// Run sends a write through the mutating and then the validating part of a plugin.
func Run(p admission.Plugin, a *admission.Attributes) error {
	c := admission.Chain{p}
	if err := c.Admit(context.Background(), a); err != nil {
		return err
	}
	return c.Validate(context.Background(), a)
}

// Check compares a plugin's error with want: "" wants none, anything else is part
// of the message of a refusal with 403.
func Check(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "":
		if err != nil {
			t.Errorf("got %v, want none", err)
		}
	case err == nil:
		t.Errorf("accepted, want a refusal with %q", want)
	case !apierrors.IsForbidden(err):
		t.Errorf("got %v, want a Forbidden", err)
	case !strings.Contains(err.Error(), want):
		t.Errorf("got %v, want %q in it", err, want)
	}
}
