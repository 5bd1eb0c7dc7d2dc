package namespacelifecycle

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	at "github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
)

func TestLifecycle(t *testing.T) {
	p := New(at.NewObjects(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "here"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ending"}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating}}))
	pod := func(namespace string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: namespace}}
	}
	ns := func(name string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	at.Check(t, at.Run(p, at.Create(admission.Pods, pod("here"))), "")
	at.Check(t, at.Run(p, at.Create(admission.Pods, pod("ending"))), "being terminated")
	at.Check(t, at.Run(p, at.Update(admission.Pods, "", pod("ending"), pod("ending"))), "")
	at.Check(t, at.Run(p, at.Update(admission.Pods, "", pod("nowhere"), pod("nowhere"))), "")
	at.Check(t, at.Run(p, at.Delete(admission.Pods, pod("nowhere"))), "")
	at.Check(t, at.Run(p, at.Delete(admission.Namespaces, ns("kube-system"))), "may not be deleted")
	at.Check(t, at.Run(p, at.Delete(admission.Namespaces, ns("here"))), "")
	if err := at.Run(p, at.Create(admission.Pods, pod("nowhere"))); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
}
