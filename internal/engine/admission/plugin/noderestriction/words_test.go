package noderestriction

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	at "github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
	"github.com/kanzen-io/kanzen/internal/object/features"
)

// TestMissingDriver has what leads to a CSI driver missing, one after the other: the words are those of kube-apiserver.
func TestMissingDriver(t *testing.T) {
	asking := pod(func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
	})
	ephemeral := pod(func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}}}}}
	})
	claim := func(name string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: meta("ns", name), Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"}}
	}
	volume := &corev1.PersistentVolume{ObjectMeta: meta("", "pv"), Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d"}}}}
	driver := &storagev1.CSIDriver{ObjectMeta: meta("", "d"), Spec: storagev1.CSIDriverSpec{TokenRequests: []storagev1.TokenRequest{{Audience: "vault"}}}}
	for _, c := range []struct {
		pod  *corev1.Pod
		have []admission.Object
		want string
	}{
		{asking, nil, `error validating audience "vault": persistentvolumeclaim "c" not found`},
		{asking, []admission.Object{claim("c")}, `error validating audience "vault": persistentvolume "pv" not found`},
		{asking, []admission.Object{claim("c"), volume}, `error validating audience "vault": csidriver.storage.k8s.io "d" not found`},
		{asking, []admission.Object{claim("c"), volume, driver}, ""},
		{ephemeral, []admission.Object{claim("c")}, `error validating audience "vault": persistentvolumeclaim "p-v" not found`},
		{ephemeral, []admission.Object{claim("p-v"), volume, driver}, ""},
	} {
		p := New(at.NewObjects(append(c.have, c.pod, node("me", nil))...), nobody{}, features.Set{})
		a := token("p", "vault")
		a.User = &user.DefaultInfo{Name: "system:node:me", Groups: []string{user.NodesGroup}}
		at.Check(t, at.Run(p, a), c.want)
	}
}
