package pvcresize

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	at "github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
)

func TestResize(t *testing.T) {
	yes := true
	objects := at.NewObjects(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "grows"}, AllowVolumeExpansion: &yes},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "stays"}})
	claim := func(class, size string, phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "ns"},
			Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{"storage": resource.MustParse(size)}}},
			Status: corev1.PersistentVolumeClaimStatus{Phase: phase},
		}
	}
	for _, c := range []struct {
		name, class, size string
		phase             corev1.PersistentVolumeClaimPhase
		want              string
	}{
		{"grows", "grows", "2Gi", corev1.ClaimBound, ""},
		{"shrinks", "stays", "1Mi", corev1.ClaimBound, ""},
		{"unbound", "grows", "2Gi", corev1.ClaimPending, "only bound"},
		{"may not", "stays", "2Gi", corev1.ClaimBound, "must support resize"},
		{"no such class", "x", "2Gi", corev1.ClaimBound, "must support resize"},
		{"no class", "", "2Gi", corev1.ClaimBound, "must support resize"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := at.Update(admission.PersistentVolumeClaims, "", claim(c.class, c.size, c.phase), claim(c.class, "1Gi", c.phase))
			at.Check(t, at.Run(New(objects), a), c.want)
		})
	}
}
