package test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	base64plugin "k8s.io/apiserver/pkg/storage/value/encrypt/envelope/testing/v2"

	"github.com/kanzen-io/kanzen/test/peer"
)

// socketDir is a directory for sockets, whose paths must be short.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "kms")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// kmsConfig encrypts secrets with a plugin.
func kmsConfig(t *testing.T, socket string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	must(t, os.WriteFile(file, []byte(fmt.Sprintf(`kind: EncryptionConfiguration
apiVersion: apiserver.config.k8s.io/v1
resources: [{resources: [secrets], providers: [{kms: {apiVersion: v2, name: plugin, endpoint: 'unix://%s', timeout: 2s}}]}]
`, socket)), 0o600))
	return file
}

// ownPlugin starts kanzen-kms with a new key in a file.
func ownPlugin(t *testing.T, program, socket, keys string) *process {
	t.Helper()
	p := start(t, program, "serve", "--key-file", keys, "--socket", socket)
	within(t, 60*time.Second, "the plugin serves", func(context.Context) bool { _, err := os.Stat(socket); return err == nil })
	return p
}

// TestKMSPlugins has kanzen and kube-apiserver share secrets that a plugin encrypts: this project's, and the one of
// kube-apiserver's tests. Both say the same when the plugin is away.
func TestKMSPlugins(t *testing.T) {
	t.Parallel()
	program := filepath.Join(socketDir(t), "kanzen-kms")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/kanzen-kms")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Run("Base64", func(t *testing.T) {
		t.Parallel()
		socket := filepath.Join(socketDir(t), "s")
		base64plugin.NewBase64Plugin(t, socket)
		shareSecrets(t, socket)
	})
	t.Run("kanzen-kms", func(t *testing.T) {
		t.Parallel()
		dir := socketDir(t)
		socket, keys := filepath.Join(dir, "s"), filepath.Join(dir, "keys")
		if _, stderr, code := output(t, program, "rotate", "--key-file", keys); code != 0 {
			t.Fatal(stderr)
		}
		plugin := ownPlugin(t, program, socket, keys)
		own, theirs := shareSecrets(t, socket)
		plugin.end(syscall.SIGTERM)
		// Both are unwell, and what they know they still read and write for a while.
		for name, s := range map[string]*sealingServer{"kanzen": own, "kube-apiserver": theirs} {
			within(t, 90*time.Second, name+" is unwell", func(context.Context) bool {
				code, _ := s.get("/readyz/kms-providers")
				return code == http.StatusInternalServerError
			})
			if code, body := s.get("/api/v1/namespaces/default/secrets/by-kanzen"); code != http.StatusOK {
				t.Errorf("%s reads: %d %s", name, code, body)
			}
		}
		// Servers that begin without the plugin neither read nor write secrets, in the same words, and are there otherwise.
		other := t.TempDir()
		file := kmsConfig(t, socket)
		k := serve(t, filepath.Join(other, "kanzen"), "--etcd-servers="+own.etcd.Endpoints()[0], "--encryption-provider-config="+file, "--controllers=", "--disable-admission-plugins=ServiceAccount")
		_, err := k.client().CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "without"}}, metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), "got unexpected nil transformer") {
			t.Errorf("a write without the plugin: %v", err)
		}
		_, err = k.client().CoreV1().Secrets("default").Get(t.Context(), "by-peer", metav1.GetOptions{})
		if err == nil || !strings.Contains(err.Error(), "failed to decrypt DEK") {
			t.Errorf("a read without the plugin: %v", err)
		}
		_, err = k.client().CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "without"}}, metav1.CreateOptions{})
		must(t, err)
		ownPlugin(t, program, socket, keys)
		within(t, 90*time.Second, "what the plugin encrypted is read again", func(ctx context.Context) bool {
			_, err := k.client().CoreV1().Secrets("default").Get(ctx, "by-peer", metav1.GetOptions{})
			return err == nil
		})
	})
}

// shareSecrets has both servers write a secret and read both.
func shareSecrets(t *testing.T, socket string) (own, theirs *sealingServer) {
	t.Helper()
	file, etcd := kmsConfig(t, socket), peer.Etcd(t)
	theirs = newSealingServer(t, peer.StartOn(t, etcd, "--encryption-provider-config", file, "--disable-admission-plugins=ServiceAccount"), etcd)
	k := serve(t, filepath.Join(t.TempDir(), "kanzen"), "--etcd-servers="+etcd, "--encryption-provider-config="+file, "--controllers=", "--disable-admission-plugins=ServiceAccount")
	own = newSealingServer(t, k.config(), etcd)
	for name, s := range map[string]*sealingServer{"by-kanzen": own, "by-peer": theirs} {
		o := gadgetDefinition().DeepCopy()
		o.Object = map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name}, "stringData": map[string]any{"a": name}}
		_, err := s.client.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace("default").Create(t.Context(), o, metav1.CreateOptions{})
		must(t, err)
		if stored := s.stored("secrets/default/" + name); !strings.HasPrefix(string(stored), "k8s:enc:kms:v2:plugin:") {
			t.Errorf("%s: stored as %.60q", name, stored)
		}
	}
	for _, s := range []*sealingServer{own, theirs} {
		for _, name := range []string{"by-kanzen", "by-peer"} {
			if code, body := s.get("/api/v1/namespaces/default/secrets/" + name); code != http.StatusOK || !strings.Contains(body, `"data":{"a":`) {
				t.Errorf("%s: %d %s", name, code, body)
			}
		}
		if code, body := s.get("/readyz/kms-providers"); code != http.StatusOK {
			t.Errorf("/readyz/kms-providers: %d %s", code, body)
		}
	}
	return own, theirs
}
