package storageprotection

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	at "github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
)

func TestFinalizers(t *testing.T) {
	for _, c := range []struct {
		gr   schema.GroupResource
		obj  admission.Object
		want string
	}{
		{admission.PersistentVolumes, &corev1.PersistentVolume{}, "kubernetes.io/pv-protection"},
		{admission.PersistentVolumeClaims, &corev1.PersistentVolumeClaim{}, "kubernetes.io/pvc-protection"},
		{admission.VolumeAttributesClasses, &storagev1.VolumeAttributesClass{}, "kubernetes.io/vac-protection"},
		{admission.PodGroups, &schedulingv1alpha3.PodGroup{}, "scheduling.k8s.io/podgroup-protection"},
		{admission.Pods, &corev1.Pod{}, ""},
	} {
		var want []string
		if c.want != "" {
			want = []string{c.want}
		}
		p := New()
		if c.gr == admission.PodGroups {
			p = PodGroups()
		}
		for range 2 { // the second time it is there
			at.Check(t, at.Run(p, at.Create(c.gr, c.obj)), "")
			if got := c.obj.GetFinalizers(); !slices.Equal(got, want) {
				t.Errorf("%s: got %v", c.gr, got)
			}
		}
	}
}
