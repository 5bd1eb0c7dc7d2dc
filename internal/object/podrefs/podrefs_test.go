package podrefs

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestNames(t *testing.T) {
	ref := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	spec := &corev1.PodSpec{
		ImagePullSecrets: []corev1.LocalObjectReference{ref("pull"), ref("")},
		InitContainers: []corev1.Container{{EnvFrom: []corev1.EnvFromSource{
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref("env")}}, {ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref("cenv")}}}}},
		Containers: []corev1.Container{{Env: []corev1.EnvVar{
			{ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref("key")}}},
			{ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref("ckey")}}}}}},
		Volumes: []corev1.Volume{
			{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "volume"}}},
			{VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: ref("cvolume")}}},
			{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{Secret: &corev1.SecretProjection{LocalObjectReference: ref("projected")}},
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: ref("cprojected")}}}}}},
		},
	}
	if got := slices.Collect(Secrets(spec)); !slices.Equal(got, []string{"pull", "env", "key", "volume", "projected"}) {
		t.Errorf("secrets %v", got)
	}
	if got := slices.Collect(ConfigMaps(spec)); !slices.Equal(got, []string{"cenv", "ckey", "cvolume", "cprojected"}) {
		t.Errorf("config maps %v", got)
	}
}

func TestAny(t *testing.T) {
	volume := func(s corev1.VolumeSource) *corev1.PodSpec {
		return &corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: s}}}
	}
	for _, c := range []struct {
		name string
		spec *corev1.PodSpec
		want string
		bad  bool
	}{
		{"nothing", &corev1.PodSpec{}, "", false},
		{"host path", volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}), "", false},
		{"account", &corev1.PodSpec{ServiceAccountName: "a"}, "serviceaccounts", false},
		{"claim", volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}), "persistentvolumeclaims", false},
		{"token", volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{DownwardAPI: &corev1.DownwardAPIProjection{}}, {ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}}}}), "serviceaccounts (via projected volumes)", false},
		{"something new", volume(corev1.VolumeSource{}), "", true},
	} {
		got, err := Any(c.spec)
		if got != c.want || (err != nil) != c.bad {
			t.Errorf("%s: got %q, %v", c.name, got, err)
		}
	}
}
