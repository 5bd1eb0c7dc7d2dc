package namespaces

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	at "github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
)

func TestNamespaces(t *testing.T) {
	objects := at.NewObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "here"}})
	var made []string
	auto := AutoProvision(objects, func(_ context.Context, name string) error {
		made = append(made, name)
		return nil
	})
	in := func(namespace string) *admission.Attributes {
		return at.Create(admission.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: namespace}})
	}
	dry := in("dry")
	dry.DryRun = true
	for _, a := range []*admission.Attributes{in("here"), in("there"), in(""), dry} {
		at.Check(t, at.Run(auto, a), "")
	}
	if len(made) != 1 || made[0] != "there" {
		t.Errorf("made %v", made)
	}
	exists := Exists(objects)
	at.Check(t, at.Run(exists, in("here")), "")
	if err := at.Run(exists, in("there")); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
}
