package test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// TestSnapshotWithKeys saves an encrypting server with its keys, and restores it elsewhere: kubeconfigs stay valid, and secrets can be read.
func TestSnapshotWithKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	run := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		stdout, stderr, code := output(t, binaries.kanzen, args...)
		if code != want {
			t.Fatalf("%v: exit code %d, %s%s", args, code, stdout, stderr)
		}
		return stdout, stderr
	}
	must(t, os.WriteFile(at("passphrase"), []byte("correct horse\n"), 0o600))
	must(t, os.WriteFile(at("wrong"), []byte("battery staple\n"), 0o600))
	run(0, "encryption", "init", at("encryption.yaml"))
	k := serve(t, at("data"), "--encryption-provider-config="+at("encryption.yaml"))
	old := k.config()
	_, err := kubernetes.NewForConfigOrDie(old).CoreV1().Secrets("default").Create(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"a": "hello"}}, metav1.CreateOptions{})
	must(t, err)
	run(0, "snapshot", "save", at("b.db"), "--data-dir", at("data"), "--with-keys", "--passphrase-file", at("passphrase"), "--encryption-provider-config", at("encryption.yaml"))
	k.end(syscall.SIGTERM)

	_, said := run(0, "snapshot", "restore", at("b.db"), "--to-data-dir", at("bare"))
	contains(t, said, "are not valid on the new one", "Encrypted by secretbox: 1 secrets.")
	_, said = run(1, "snapshot", "restore", at("b.db"), "--to-data-dir", at("new"), "--keys", at("b.db.keys"), "--passphrase-file", at("wrong"))
	contains(t, said, "the passphrase is not the one")
	if _, err := os.Stat(at("new")); err == nil {
		t.Error("a wrong passphrase leaves a directory")
	}
	told, said := run(0, "snapshot", "restore", at("b.db"), "--to-data-dir", at("new"), "--keys", at("b.db.keys"), "--passphrase-file", at("passphrase"))
	if said != "" {
		t.Errorf("nothing is lost, but it says %q", said)
	}
	contains(t, told, "kanzen serve --data-dir "+at("new")+" --encryption-provider-config "+at("new/encryption.yaml"))

	k = serve(t, at("new"), "--encryption-provider-config="+at("new/encryption.yaml"))
	old.Host = k.config().Host
	secret, err := kubernetes.NewForConfigOrDie(old).CoreV1().Secrets("default").Get(t.Context(), "s", metav1.GetOptions{})
	if err != nil || string(secret.Data["a"]) != "hello" {
		t.Errorf("by the old kubeconfig: %v %v", secret.Data, err)
	}
	for _, name := range []string{"b.db", "b.db.keys"} {
		content, err := os.ReadFile(at(name))
		if err != nil || strings.Contains(string(content), "hello") || strings.Contains(string(content), "PRIVATE KEY") {
			t.Errorf("%s: %v, or something is legible", name, err)
		}
	}
}
