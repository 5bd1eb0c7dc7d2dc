//go:build linux

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestVolumes(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s"}, Data: map[string][]byte{"tls.crt": []byte("one")}}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c"}, Data: map[string]string{"a": "text"}, BinaryData: map[string][]byte{"b": {1}}}
	client := fake.NewClientset(secret, settings)
	yes := true
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p"}}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "cert", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}},
		{Name: "none", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "x", Optional: &yes}}},
		{Name: "own", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "all", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}, Items: []corev1.KeyToPath{{Key: "a", Path: "x/a"}}}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "name", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}},
		}}}},
	}
	v := &volumes{client: client, pod: pod, folder: filepath.Join(t.TempDir(), "volumes")}
	if err := v.sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	holds(t, v.folder, map[string]string{"cert/tls.crt": "one", "all/x/a": "text", "all/name": "p"})
	secret.Data["tls.crt"] = []byte("two")
	if _, err := client.CoreV1().Secrets("n").Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := v.sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	holds(t, v.folder, map[string]string{"cert/tls.crt": "two"})
	pod.Spec.Volumes[1].Secret.Optional = nil
	if err := v.sync(t.Context()); err == nil || !strings.Contains(err.Error(), "volume none") {
		t.Errorf("a secret that is not there: %v", err)
	}
	pod.Spec.Volumes = []corev1.Volume{{Name: "disk", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
	if err := v.sync(t.Context()); err == nil {
		t.Error("the disk of the machine is a volume")
	}
}

func holds(t *testing.T, folder string, want map[string]string) {
	t.Helper()
	for name, text := range want {
		if b, err := os.ReadFile(filepath.Join(folder, name)); err != nil || string(b) != text {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

func TestEnvironment(t *testing.T) {
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c"}, Data: map[string]string{"A": "1"}}
	of, yes := corev1.LocalObjectReference{Name: "c"}, true
	c := &corev1.Container{
		EnvFrom: []corev1.EnvFromSource{{Prefix: "P_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: of}}},
		Env: []corev1.EnvVar{
			{Name: "B", Value: "$(P_A)$(C)"},
			{Name: "C", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: of, Key: "A"}}},
			{Name: "D", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: of, Key: "none", Optional: &yes}}},
			{Name: "E", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}},
			{Name: "F", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu"}}},
		},
	}
	v := &volumes{client: fake.NewClientset(settings), pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p"}}}
	env, err := v.environment(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"P_A=1", "B=1$(C)", "C=1", "E=n", "F=2", "HOSTNAME=p", "KUBERNETES_SERVICE_PORT=6443"} {
		if !slices.Contains(env, want) {
			t.Errorf("there is no %s in %q", want, env)
		}
	}
	if slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, "D=") }) {
		t.Errorf("a variable without a value: %q", env)
	}
}
