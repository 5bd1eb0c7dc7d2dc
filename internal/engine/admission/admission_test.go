package admission_test

import (
	"context"
	"errors"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// A chain runs all mutating plugins before the validating ones, each only for
// writes that it handles.
func TestChain(t *testing.T) {
	var ran []string
	part := func(name string) admission.Func {
		return func(context.Context, *admission.Attributes) error {
			ran = append(ran, name)
			return nil
		}
	}
	c := admission.Chain{
		{Name: "a", Mutator: part("a admits"), Validator: part("a validates")},
		{Name: "b", Validator: part("b validates"), On: []admission.Operation{admission.Delete}},
		{Name: "c", Mutator: part("c admits"), Of: []schema.GroupResource{admission.Nodes}},
		{Name: "d", Mutator: part("d admits"), On: []admission.Operation{admission.Create}, Of: []schema.GroupResource{admission.Pods}},
	}
	a := &admission.Attributes{Operation: admission.Create, Resource: admission.Pods.WithVersion("v1"), Subresource: "binding"}
	if err := errors.Join(c.Admit(t.Context(), a), c.Validate(t.Context(), a)); err != nil {
		t.Fatal(err)
	}
	if want := []string{"a admits", "d admits", "a validates"}; !reflect.DeepEqual(ran, want) {
		t.Errorf("ran %v, want %v", ran, want)
	}
}

func TestForbidden(t *testing.T) {
	pod := func(name, generate string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, GenerateName: generate}}
	}
	for _, c := range []struct {
		name string
		a    admission.Attributes
		want string
	}{
		{"by the request", admission.Attributes{Name: "a", Object: pod("b", "")}, "a"},
		{"by the object", admission.Attributes{Object: pod("b", "c-")}, "b"},
		{"to be generated", admission.Attributes{Object: pod("", "c-")}, "c-"},
		{"without", admission.Attributes{}, "Unknown"},
	} {
		c.a.Resource = admission.Pods.WithVersion("v1")
		err := admission.Forbiddenf(&c.a, "no")
		var st *apierrors.StatusError
		if !errors.As(err, &st) || st.ErrStatus.Details.Name != c.want || st.ErrStatus.Details.Kind != "pods" {
			t.Errorf("%s: %v", c.name, err)
		}
		if again := admission.Forbidden(&c.a, err); again != err {
			t.Errorf("%s: a refusal was refused: %v", c.name, again)
		}
	}
}
