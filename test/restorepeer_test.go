package test

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kanzen-io/kanzen/test/peer"
)

// TestRestoreFromPeer moves a namespace from a cluster whose etcd kube-apiserver has written, as docs/from/k3s.md does it: by a
// snapshot, through the API. Addresses of services have to be of the new server's range.
func TestRestoreFromPeer(t *testing.T) {
	t.Parallel()
	const addresses = "--service-cluster-ip-range=10.43.0.0/16"
	etcd := peer.Etcd(t)
	old := kubernetes.NewForConfigOrDie(peer.StartOn(t, etcd, "--disable-admission-plugins=ServiceAccount", addresses)).CoreV1()
	shop := metav1.ObjectMeta{Name: "shop"}
	_, err := old.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: shop}, metav1.CreateOptions{})
	must(t, err)
	_, err = old.Secrets("shop").Create(t.Context(), &corev1.Secret{ObjectMeta: shop, StringData: map[string]string{"key": "value"}}, metav1.CreateOptions{})
	must(t, err)
	service, err := old.Services("shop").Create(t.Context(), &corev1.Service{ObjectMeta: shop, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
	must(t, err)

	file := filepath.Join(t.TempDir(), "move.db")
	if _, stderr, code := output(t, binaries.kanzen, "snapshot", "save", file, "--etcd-servers", etcd); code != 0 {
		t.Fatal(stderr)
	}
	restore := func(k *kanzen, args ...string) (string, int) {
		t.Helper()
		stdout, stderr, code := output(t, binaries.kanzen, append([]string{"snapshot", "restore", file, "--kubeconfig", k.kubeconfig()}, args...)...)
		return stdout + stderr, code
	}
	k := serve(t, filepath.Join(t.TempDir(), "data"), addresses)
	if said, code := restore(k, "--dry-run", "--all"); code != 0 {
		t.Errorf("the dry run of everything: %s", said)
	}
	if said, code := restore(k, "-n", "shop"); code != 0 {
		t.Errorf("%s", said)
	}
	restored := kubernetes.NewForConfigOrDie(k.config()).CoreV1()
	if s, err := restored.Services("shop").Get(t.Context(), "shop", metav1.GetOptions{}); err != nil || s.Spec.ClusterIP != service.Spec.ClusterIP || s.UID == service.UID {
		t.Errorf("the service is restored as %+v (%v), not with the address %s and another UID", s, err, service.Spec.ClusterIP)
	}
	if s, err := restored.Secrets("shop").Get(t.Context(), "shop", metav1.GetOptions{}); err != nil || string(s.Data["key"]) != "value" {
		t.Errorf("the secret is restored as %+v (%v)", s, err)
	}

	other := serve(t, filepath.Join(t.TempDir(), "other"))
	if said, code := restore(other, "-n", "shop"); code == 0 || !strings.Contains(said, "does not match the current range") {
		t.Errorf("with another range of addresses: %d %s", code, said)
	}
}
