package defaultclass

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	at "github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
)

func meta(name string, age time.Duration, annotation string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age)), Annotations: map[string]string{annotation: "true"}}
}

func TestStorage(t *testing.T) {
	objects := at.NewObjects(
		&storagev1.StorageClass{ObjectMeta: meta("old", time.Hour, defaultStorageAnnotation)},
		&storagev1.StorageClass{ObjectMeta: meta("b", 0, betaDefaultStorageAnnotation)},
		&storagev1.StorageClass{ObjectMeta: meta("a", 0, defaultStorageAnnotation)},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "0"}})
	none := ""
	for _, c := range []struct {
		name  string
		claim *corev1.PersistentVolumeClaim
		want  string
	}{
		{"newest, first by name", &corev1.PersistentVolumeClaim{}, "a"},
		{"none wanted", &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &none}}, ""},
		{"annotated", &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{corev1.BetaStorageClassAnnotation: "x"}}}, "x"},
	} {
		at.Check(t, at.Run(Storage(objects), at.Create(admission.PersistentVolumeClaims, c.claim)), "")
		if got := Of(c.claim); got != c.want {
			t.Errorf("%s: got %q", c.name, got)
		}
	}
	claim := &corev1.PersistentVolumeClaim{}
	at.Check(t, at.Run(Storage(at.NewObjects()), at.Create(admission.PersistentVolumeClaims, claim)), "")
	if claim.Spec.StorageClassName != nil {
		t.Errorf("got %q", *claim.Spec.StorageClassName)
	}
}

func TestIngress(t *testing.T) {
	objects := at.NewObjects(&networkingv1.IngressClass{ObjectMeta: meta("a", 0, networkingv1.AnnotationIsDefaultIngressClass)})
	ingress := &networkingv1.Ingress{}
	annotated := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{ingressAnnotation: "x"}}}
	at.Check(t, at.Run(Ingress(objects), at.Create(admission.Ingresses, ingress)), "")
	at.Check(t, at.Run(Ingress(objects), at.Create(admission.Ingresses, annotated)), "")
	if ingress.Spec.IngressClassName == nil || *ingress.Spec.IngressClassName != "a" || annotated.Spec.IngressClassName != nil {
		t.Errorf("got %v and %v", ingress.Spec.IngressClassName, annotated.Spec.IngressClassName)
	}
}
