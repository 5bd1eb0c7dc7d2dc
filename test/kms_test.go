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
	base64pluginv1 "k8s.io/apiserver/pkg/storage/value/encrypt/envelope/testing/v1beta1"
	base64plugin "k8s.io/apiserver/pkg/storage/value/encrypt/envelope/testing/v2"

	"github.com/kanzen-io/kanzen/test/peer"
	"github.com/kanzen-io/kanzen/test/standin"
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

// TestKMSFaults has the plugin of a server that serves be slow, turn over its key, return garbage and go away: what is there is
// read and written all the time, /readyz says what is wrong, and all is well again when the plugin is.
func TestKMSFaults(t *testing.T) {
	t.Parallel()
	kms := standin.StartKMS(t, "key-1")
	file := kmsConfig(t, strings.TrimPrefix(kms.Endpoint, "unix://"))
	etcd := etcdServer(t)
	k := serve(t, filepath.Join(t.TempDir(), "kanzen"), "--etcd-servers="+etcd, "--encryption-provider-config="+file, "--controllers=", "--disable-admission-plugins=ServiceAccount")
	s, secrets := newSealingServer(t, k.config(), etcd), k.client().CoreV1().Secrets("default")
	written := map[string]bool{}
	write := func(name string) {
		t.Helper()
		_, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"a": name}}, metav1.CreateOptions{})
		must(t, err)
		written[name] = true
		for name := range written {
			o, err := secrets.Get(t.Context(), name, metav1.GetOptions{})
			must(t, err)
			if string(o.Data["a"]) != name {
				t.Errorf("%s holds %q", name, o.Data["a"])
			}
		}
	}
	readiness := func(want int, part string) {
		t.Helper()
		within(t, 90*time.Second, fmt.Sprintf("/readyz/kms-providers says %d %s", want, part), func(context.Context) bool {
			code, body := s.get("/readyz/kms-providers")
			return code == want && strings.Contains(body, part)
		})
	}
	write("first")
	kms.Slow(time.Second) // within the plugin's timeout of two
	write("slow")
	readiness(http.StatusOK, "")
	kms.Slow(4 * time.Second)
	readiness(http.StatusInternalServerError, "DeadlineExceeded")
	write("too-slow")
	kms.Slow(0)
	readiness(http.StatusOK, "")

	kms.Garble(true)
	kms.Rotate("key-2")
	readiness(http.StatusInternalServerError, "decrypts to something else than it has encrypted")
	write("garbage")
	if stored := s.stored("secrets/default/garbage"); !strings.Contains(string(stored), "key-1") {
		t.Errorf("stored as %q", stored)
	}
	kms.Garble(false)
	readiness(http.StatusOK, "")
	write("turned-over")
	if stored := s.stored("secrets/default/turned-over"); !strings.Contains(string(stored), "key-2") {
		t.Errorf("stored as %q", stored)
	}

	kms.Break(true)
	readiness(http.StatusInternalServerError, "the plugin is broken")
	write("away")
	kms.Break(false)
	readiness(http.StatusOK, "")
	write("last")
}

// TestKMSv1 has both servers share secrets that a plugin with the deprecated first version of the API encrypts, behind its gate.
func TestKMSv1(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(socketDir(t), "s")
	base64pluginv1.NewBase64Plugin(t, socket)
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	must(t, os.WriteFile(file, []byte(fmt.Sprintf(`kind: EncryptionConfiguration
apiVersion: apiserver.config.k8s.io/v1
resources: [{resources: [secrets], providers: [{kms: {apiVersion: v1, name: plugin, endpoint: 'unix://%s', timeout: 2s}}]}]
`, socket)), 0o600))
	etcd := peer.Etcd(t)
	args := []string{"--encryption-provider-config=" + file, "--disable-admission-plugins=ServiceAccount"}
	refused := start(t, binaries.kanzen, append([]string{"serve", "--data-dir=" + t.TempDir(), "--secure-port=0", "--etcd-servers=" + etcd}, args...)...)
	if code := refused.exit(); code == 0 || !strings.Contains(refused.stderr.String(), "Set --feature-gates=KMSv1=true to use the deprecated KMSv1 feature") {
		t.Errorf("without the gate: exit code %d: %s", code, refused.stderr.String())
	}
	args = append(args, "--feature-gates=KMSv1=true")
	theirs := newSealingServer(t, peer.StartOn(t, etcd, args...), etcd)
	k := serve(t, filepath.Join(t.TempDir(), "kanzen"), append(args, "--etcd-servers="+etcd, "--controllers=")...)
	servers := map[string]*sealingServer{"by-kanzen": newSealingServer(t, k.config(), etcd), "by-peer": theirs}
	for name, s := range servers {
		o := gadgetDefinition().DeepCopy()
		o.Object = map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name}, "stringData": map[string]any{"a": name}}
		_, err := s.client.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace("default").Create(t.Context(), o, metav1.CreateOptions{})
		must(t, err)
		if stored := s.stored("secrets/default/" + name); !strings.HasPrefix(string(stored), "k8s:enc:kms:v1:plugin:") {
			t.Errorf("%s: stored as %.60q", name, stored)
		}
	}
	for who, s := range servers {
		for name := range servers {
			if code, body := s.get("/api/v1/namespaces/default/secrets/" + name); code != http.StatusOK || !strings.Contains(body, `"data":{"a":`) {
				t.Errorf("the server %s reads %s: %d %s", who, name, code, body)
			}
		}
		if code, body := s.get("/readyz/kms-provider-0"); code != http.StatusOK {
			t.Errorf("%s: /readyz/kms-provider-0: %d %s", who, code, body)
		}
	}
}
