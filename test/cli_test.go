package test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func TestServeGreetsAndStops(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	k := serve(t, dir)
	t.Logf("ready %v after the start on an empty directory", k.started)
	if !strings.HasPrefix(k.lines[0], "kanzen ") || !strings.Contains(k.lines[0], "Ctrl-C") {
		t.Errorf("first line: %q", k.lines[0])
	}
	if want := "export KUBECONFIG=" + k.kubeconfig(); strings.TrimSpace(k.lines[1]) != want {
		t.Errorf("second line: %q, want %q", k.lines[1], want)
	}
	if !strings.Contains(k.lines[2], "kubectl get namespaces") {
		t.Errorf("third line: %q", k.lines[2])
	}
	if _, err := k.client().CoreV1().Namespaces().Create(t.Context(), namespace("kept"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	stop(t, k, syscall.SIGINT)

	again := serve(t, dir)
	t.Logf("ready %v after the start on what it left", again.started)
	if _, err := again.client().CoreV1().Namespaces().Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	stop(t, again, syscall.SIGTERM)
}

// stop ends a server in order, without a word more.
func stop(t *testing.T, k *kanzen, s syscall.Signal) {
	t.Helper()
	code, took := k.end(s)
	if code != 0 || took > 20*time.Second { // a fraction of a second on a quiet machine
		t.Errorf("%v: exit code %d after %v", s, code, took)
	}
	t.Logf("%v: ended after %v", s, took)
	for l := range k.stdout {
		t.Errorf("a line more than three on standard output: %q", l)
	}
	if e := withoutSteps(k.stderr.String()); e != "" {
		t.Errorf("on standard error: %s", e)
	}
}

// withoutSteps leaves the steps of starting and stopping out of a log, and what is said of a slow disk.
func withoutSteps(log string) string {
	out := ""
	for line := range strings.Lines(log) {
		if !strings.Contains(line, " level=INFO msg=") && !strings.Contains(line, "etcd: slow fdatasync") && !strings.Contains(line, "etcd: apply request took") {
			out += line
		}
	}
	return out
}

// A watch lasts by nature; it must not hold up the end of the server.
func TestServeStopsUnderWatches(t *testing.T) {
	t.Parallel()
	k := serve(t, t.TempDir())
	w, err := k.client().CoreV1().Namespaces().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	stop(t, k, syscall.SIGINT)
}

// Several wrong flags are all told at once, a line each.
func TestServeTellsEveryWrongFlag(t *testing.T) {
	t.Parallel()
	_, stderr, code := output(t, binaries.kanzen, "serve", "--data-dir", filepath.Join(t.TempDir(), "data"),
		"--secure-port=-1", "--service-cluster-ip-range=x", "--authorization-mode=Nobody")
	if code == 0 || strings.Count(stderr, "\n") != 3 || strings.Count(stderr, "Error: --") != 3 {
		t.Errorf("exit code %d, standard error:\n%s", code, stderr)
	}
}

func TestFilesArePrivate(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"etcd", "pebble"} {
		filesArePrivate(t, serve(t, filepath.Join(t.TempDir(), "data"), "--engine="+engine))
	}
}

func filesArePrivate(t *testing.T, k *kanzen) {
	t.Helper()
	err := filepath.WalkDir(k.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %v, want %v", path, got, want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestKubeconfig(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	if _, stderr, code := output(t, binaries.kanzen, "kubeconfig", "--data-dir", dir); code == 0 || strings.Count(stderr, "\n") != 1 {
		t.Errorf("without a server: exit code %d, %q", code, stderr)
	}
	k := serve(t, dir)
	stdout, stderr, code := output(t, binaries.kanzen, "kubeconfig", "--data-dir", dir)
	file, err := os.ReadFile(k.kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if code != 0 || stderr != "" || stdout != string(file) {
		t.Errorf("exit code %d, %q, and a kubeconfig that is equal to the file: %v", code, stderr, stdout == string(file))
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	stdout, _, code := output(t, binaries.kanzen, "version")
	if code != 0 || !regexp.MustCompile(`(?s)^kanzen \S+\nKubernetes v1\.37\.\d+\S*\ngo\S+ \S+\n$`).MatchString(stdout) {
		t.Errorf("exit code %d: %q", code, stdout)
	}
	stdout, _, code = output(t, link(t, "kube-apiserver"), "--version")
	if code != 0 || !regexp.MustCompile(`^Kubernetes v1\.37\.\d+\S*\n$`).MatchString(stdout) {
		t.Errorf("as kube-apiserver: exit code %d: %q", code, stdout)
	}
}

// Programs that start kube-apiserver look into its help for the flags it has.
func TestHelpNamesFlags(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path  string
		args  []string
		flags []string
	}{
		"serve":          {binaries.kanzen, []string{"serve", "--help"}, []string{"data-dir", "controllers", "secure-port", "bind-address"}},
		"kubeconfig":     {binaries.kanzen, []string{"kubeconfig", "--help"}, []string{"data-dir"}},
		"kube-apiserver": {link(t, "kube-apiserver"), []string{"--help"}, []string{"etcd-servers", "allow-privileged", "service-account-issuer", "insecure-port-is-not-one"}},
	} {
		stdout, _, code := output(t, c.path, c.args...)
		if code != 0 {
			t.Errorf("%s: exit code %d", name, code)
		}
		for _, f := range c.flags {
			got := regexp.MustCompile(`(?m)^  --` + f + `\b`).MatchString(stdout)
			if want := f != "insecure-port-is-not-one"; got != want {
				t.Errorf("%s: help has a line for --%s: %v", name, f, got)
			}
		}
	}
}

// envtest starts two files, etcd and kube-apiserver, with flags like these.
func TestAsKubeAPIServerAndEtcd(t *testing.T) {
	t.Parallel()
	// What envtest makes itself: keys and certificates. Here a short run of
	// `kanzen serve` makes them.
	keys := serve(t, filepath.Join(t.TempDir(), "keys"))
	stop(t, keys, syscall.SIGINT)
	pki := filepath.Join(keys.dir, "pki")

	etcdURL, peerURL := "http://127.0.0.1:"+freePort(t), "http://127.0.0.1:"+freePort(t)
	etcdData := filepath.Join(t.TempDir(), "etcd-data")
	etcd := start(t, link(t, "etcd"), "--listen-client-urls="+etcdURL, "--advertise-client-urls="+etcdURL,
		"--listen-peer-urls="+peerURL, "--data-dir="+etcdData, "--unsafe-no-fsync=true")
	within(t, 20*time.Second, "etcd is healthy", func(ctx context.Context) bool { return healthy(ctx, http.DefaultClient, etcdURL+"/health") })

	certDir := t.TempDir()
	for _, ext := range []string{".crt", ".key"} {
		b, err := os.ReadFile(filepath.Join(pki, "apiserver"+ext))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(certDir, "apiserver"+ext), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	port := freePort(t)
	args := []string{
		"--allow-privileged=true", "--authorization-mode=RBAC", "--bind-address=127.0.0.1", "--cert-dir=" + certDir,
		"--client-ca-file=" + filepath.Join(pki, "ca.crt"), "--disable-admission-plugins=ServiceAccount",
		"--etcd-servers=" + etcdURL, "--secure-port=" + port,
		"--service-account-issuer=https://127.0.0.1:" + port + "/",
		"--service-account-key-file=" + filepath.Join(pki, "sa.key"), "--service-account-signing-key-file=" + filepath.Join(pki, "sa.key"),
		"--service-cluster-ip-range=10.0.0.0/24",
	}
	config := &rest.Config{Host: "https://127.0.0.1:" + port, QPS: -1, TLSClientConfig: rest.TLSClientConfig{
		CAFile: filepath.Join(pki, "ca.crt"), CertFile: filepath.Join(pki, "admin.crt"), KeyFile: filepath.Join(pki, "admin.key")}}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	path := link(t, "kube-apiserver")
	for _, round := range []string{"empty etcd", "etcd with data"} {
		begin := time.Now()
		server := start(t, path, args...)
		insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		within(t, 20*time.Second, "kube-apiserver is healthy", func(ctx context.Context) bool {
			select {
			case <-server.done:
				t.Fatalf("it ended: %s", server.stderr.String())
			default:
			}
			return healthy(ctx, insecure, config.Host+"/healthz")
		})
		t.Logf("%s: healthy after %v", round, time.Since(begin))
		if round == "empty etcd" {
			if _, err := client.CoreV1().Namespaces().Create(t.Context(), namespace("kept"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := client.CoreV1().Namespaces().Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
		code, took := server.end(syscall.SIGTERM)
		if code != 0 || took > 20*time.Second {
			t.Errorf("%s: SIGTERM: exit code %d after %v\n%s", round, code, took, server.stderr.String())
		}
	}
	if code, took := etcd.end(syscall.SIGTERM); took > 20*time.Second || code > 0 {
		t.Errorf("etcd: SIGTERM: exit code %d after %v", code, took)
	}
}

func healthy(ctx context.Context, c *http.Client, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := c.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// An etcd that is not there yet is waited for; SIGTERM ends the waiting.
func TestWaitsForEtcd(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	k := start(t, binaries.kanzen, "serve", "--data-dir", t.TempDir(), "--secure-port=0", "--etcd-servers=http://"+silent.Addr().String())
	conn, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if code, took := k.end(syscall.SIGTERM); took > 20*time.Second || bytes.Contains([]byte(k.stderr.String()), []byte("panic")) {
		t.Errorf("exit code %d after %v\n%s", code, took, k.stderr.String())
	}
}
