package test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

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

// TestScheduledSnapshotWithKeys starts a server that seals its keys with its snapshots, and restores the newest one elsewhere.
func TestScheduledSnapshotWithKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.WriteFile(at("passphrase"), []byte("correct horse\n"), 0o600))
	kanzenSays(t, 0, "encryption", "init", at("encryption.yaml"))
	k := serve(t, at("data"), "--encryption-provider-config="+at("encryption.yaml"), "--snapshot-schedule=@every 1s", "--snapshot-dir="+at("kept"), "--snapshot-keep=2",
		"--snapshot-keys-passphrase-file="+at("passphrase"))
	old := k.config()
	_, err := kubernetes.NewForConfigOrDie(old).CoreV1().Secrets("default").Create(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"a": "hello"}}, metav1.CreateOptions{})
	must(t, err)
	created := time.Now()
	newest := ""
	within(t, time.Minute, "snapshots with keys that were made after the secret", func(context.Context) bool {
		keys, err := filepath.Glob(at("kept/kanzen-*.db.keys"))
		if must(t, err); len(keys) < 2 {
			return false
		}
		newest = strings.TrimSuffix(keys[len(keys)-1], ".keys")
		info, err := os.Stat(newest)
		return err == nil && info.ModTime().After(created.Add(2*time.Second))
	})
	k.end(syscall.SIGTERM)
	files, err := os.ReadDir(at("kept"))
	must(t, err)
	if n := len(files); n > 5 { // two snapshots, their keys, and where they are made
		t.Errorf("%d files are kept: %v", n, files)
	}

	_, said := kanzenSays(t, 0, "snapshot", "restore", newest, "--to-data-dir", at("new"), "--keys", newest+".keys", "--passphrase-file", at("passphrase"))
	if said != "" {
		t.Errorf("nothing is lost, but it says %q", said)
	}
	k = serve(t, at("new"), "--encryption-provider-config="+at("new/encryption.yaml"))
	old.Host = k.config().Host
	secret, err := kubernetes.NewForConfigOrDie(old).CoreV1().Secrets("default").Get(t.Context(), "s", metav1.GetOptions{})
	if err != nil || string(secret.Data["a"]) != "hello" {
		t.Errorf("by the old kubeconfig: %v %v", secret.Data, err)
	}
}

// TestScheduledKeysAway takes the passphrase away from a running server: snapshots go on, and the server says what they lack.
func TestScheduledKeysAway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	flags := []string{"--snapshot-schedule=@every 1s", "--snapshot-dir=" + at("kept"), "--snapshot-keys-passphrase-file=" + at("passphrase")}
	_, stderr, code := output(t, binaries.kanzen, append([]string{"serve", "--data-dir=" + at("none"), "--secure-port=0"}, flags...)...)
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	contains(t, stderr, "--snapshot-keys-passphrase-file", "no such file")
	must(t, os.WriteFile(at("passphrase"), []byte("correct horse\n"), 0o600))
	k := serve(t, at("data"), flags...)
	must(t, os.Remove(at("passphrase")))
	client := k.client()
	within(t, named, "the finding", func(ctx context.Context) bool {
		raw, err := client.RESTClient().Get().AbsPath(recorderAPI + "/findings").DoRaw(ctx)
		must(t, err)
		return strings.Contains(string(raw), `"check":"SnapshotKeyless"`) && strings.Contains(string(raw), "no such file")
	})
	raw, err := client.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	must(t, err)
	contains(t, string(raw), "kanzen_snapshot_failures_total 0\n", "kanzen_snapshot_keys_failures_total ")
}
