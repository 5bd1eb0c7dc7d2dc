package test

import (
	"context"
	"encoding/base64"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Programs beside the server get what they need: their own users with their roles, keys that only their owner reads.
func TestAssetsForPrograms(t *testing.T) {
	t.Parallel()
	k := serve(t, filepath.Join(t.TempDir(), "data"))
	dir := filepath.Join(t.TempDir(), "it's assets") // quoted in the start lines
	stdout, stderr, code := output(t, binaries.kanzen, "assets", "--data-dir", k.dir, "--dir", dir, "--for=kube-controller-manager,kube-scheduler", "--for=kwok")
	if code != 0 || strings.Count(stdout, "\n") != 3 {
		t.Fatalf("%d: %s%s", code, stdout, stderr)
	}
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
		}
	}
	for program, want := range map[string]struct {
		user          string
		binds, delete bool
	}{
		"kube-controller-manager": {"system:kube-controller-manager", false, true},
		"kube-scheduler":          {"system:kube-scheduler", true, true},
		"kwok":                    {"kwok-controller", true, true},
	} {
		path := filepath.Join(dir, program+".kubeconfig")
		who, stderr, _ := output(t, binaries.kubectl, "--kubeconfig", path, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
		if who != want.user {
			t.Errorf("%s is %q %s", program, who, stderr)
		}
		can := func(args ...string) bool {
			_, _, code := output(t, binaries.kubectl, append([]string{"--kubeconfig", path, "auth", "can-i"}, args...)...)
			return code == 0
		}
		if got := can("create", "pods", "--subresource=binding"); got != want.binds {
			t.Errorf("%s may bind pods: %v", program, got)
		}
		if program != "kwok" && can("create", "clusterroles") {
			t.Errorf("%s may do everything", program)
		}
		// The start line starts the program, with the flags given to it.
		bin := t.TempDir()
		must(t, os.WriteFile(filepath.Join(bin, program), []byte("#!/bin/sh\nfor a in \"$@\"; do echo \"$a\"; done\n"), 0o700))
		said, stderr, code := output(t, "env", "PATH="+bin+":"+os.Getenv("PATH"), "sh", filepath.Join(dir, program+".sh"), "--more=1")
		if code != 0 || !strings.Contains(said, "--kubeconfig="+path+"\n") || !strings.HasSuffix(said, "--more=1\n") {
			t.Errorf("%s: %s %s", program, said, stderr)
		}
		for line := range strings.Lines(said) {
			if _, file, ok := strings.Cut(strings.TrimSpace(line), "=/"); ok && strings.Contains(line, "it's") {
				if _, err := os.Stat("/" + file); err != nil {
					t.Errorf("%s names a file that is not there: %v", program, err)
				}
			}
		}
	}
	for wrong, want := range map[string]string{"--for=kubelet": "kube-controller-manager", "--data-dir=" + t.TempDir(): "kanzen serve"} {
		if _, stderr, code := output(t, binaries.kanzen, "assets", "--dir", t.TempDir(), "--for=kwok", wrong); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%s: %d %s", wrong, code, stderr)
		}
	}
}

// The directory that `kanzen assets` makes is what envtest asks for; a file that is there already is not replaced.
func TestAssetsForEnvtest(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "assets")
	for range 2 { // links are replaced
		stdout, stderr, code := output(t, "env", "PATH="+filepath.Dir(binaries.kubectl)+":"+os.Getenv("PATH"), binaries.kanzen, "assets", "--dir", dir, "--kubectl")
		if code != 0 || stdout != "export KUBEBUILDER_ASSETS="+dir+"\n" {
			t.Fatalf("%d: %s%s", code, stdout, stderr)
		}
	}
	env := &envtest.Environment{BinaryAssetsDirectory: dir}
	c, err := env.Start()
	must(t, err)
	defer func() { must(t, env.Stop()) }()
	_, err = kubernetes.NewForConfigOrDie(c).CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	must(t, err)
	user, err := env.AddUser(envtest.User{Name: "u", Groups: []string{"system:masters"}}, nil)
	must(t, err)
	kubectl, err := user.Kubectl()
	must(t, err)
	if out, stderr, err := kubectl.Run("get", "configmap", "a", "-o", "name"); err != nil {
		b := make([]byte, 500)
		n, _ := stderr.Read(b)
		t.Errorf("%v %v %s", out, err, b[:n])
	}
	must(t, os.Remove(filepath.Join(dir, "etcd")))
	must(t, os.WriteFile(filepath.Join(dir, "etcd"), []byte("mine"), 0o600))
	if _, stderr, code := output(t, binaries.kanzen, "assets", "--dir", dir); code == 0 || !strings.Contains(stderr, "was not written by") {
		t.Errorf("%d %s", code, stderr)
	}
}

// With --print a script needs no directory of its own; tests that run meanwhile keep theirs.
func TestAssetsPrint(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	run := func(args ...string) (string, string, int) {
		return output(t, "env", append([]string{"-u", "XDG_CACHE_HOME", "HOME=" + home, binaries.kanzen, "assets"}, args...)...)
	}
	var before os.FileInfo
	for range 2 {
		stdout, stderr, code := run("--print")
		if code != 0 || !strings.HasPrefix(stdout, home) || strings.Count(stdout, "\n") != 1 {
			t.Fatalf("%d: %q %s", code, stdout, stderr)
		}
		server, err := os.Lstat(filepath.Join(strings.TrimSpace(stdout), "kube-apiserver"))
		must(t, err)
		if before != nil && !os.SameFile(before, server) {
			t.Error("a link that is right is replaced")
		}
		before = server
	}
	newest, _, _ := run("--print")
	if older, stderr, code := run("--print", "--emulated-version=1.35"); code != 0 || older == newest {
		t.Errorf("the directory of 1.35 is %q, that of the newest %q: %s", older, newest, stderr)
	}
	if stdout, _, _ := run(); stdout != "export KUBEBUILDER_ASSETS="+newest {
		t.Errorf("%q", stdout)
	}
	for _, wrong := range [][]string{{"--for=kwok"}, {"--for=kwok", "--print", "--dir", home}} {
		if _, stderr, code := run(wrong...); code == 0 || !strings.Contains(stderr, "--") {
			t.Errorf("%v: %d %s", wrong, code, stderr)
		}
	}
}

// One directory after another: the server is of the version that was asked for, and of the newest again.
func TestAssetsOfVersion(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "it's assets")
	for _, version := range []string{"1.35", "1.34", ""} {
		if _, stderr, code := output(t, binaries.kanzen, "assets", "--dir", dir, "--emulated-version="+version); code != 0 {
			t.Fatalf("%s: %d %s", version, code, stderr)
		}
		env := &envtest.Environment{BinaryAssetsDirectory: dir}
		c, err := env.Start()
		must(t, err)
		defer func() { must(t, env.Stop()) }()
		got, err := kubernetes.NewForConfigOrDie(c).Discovery().ServerVersion()
		must(t, err)
		want := strings.TrimPrefix(version, "1.")
		if version == "" {
			want = got.Minor
		}
		if got.EmulationMinor != want {
			t.Errorf("assets of %q are of %s", version, got.EmulationMinor)
		}
	}
	if _, stderr, code := output(t, binaries.kanzen, "assets", "--dir", t.TempDir(), "--emulated-version=1.20"); code == 0 || !strings.Contains(stderr, "between [1.34, ") {
		t.Errorf("1.20: %d %s", code, stderr)
	}
}

// Two servers of one cluster, each on a directory of its own and started at once, take each other's users and tokens. What
// they print is reachable from outside, by a certificate that has the names that were asked for.
func TestServersShareKeys(t *testing.T) {
	t.Parallel()
	etcd := etcdServer(t)
	key := filepath.Join(t.TempDir(), "cluster.key")
	must(t, os.WriteFile(key, []byte(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))+"\n"), 0o600))
	servers := make([]*kanzen, 2)
	args := []string{"--etcd-servers", etcd, "--cluster-key-file", key, "--bind-address=0.0.0.0", "--tls-san=api.example.com,192.0.2.77", "--secure-port=0"}
	dirs := []string{filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")}
	processes := []*process{start(t, binaries.kanzen, append([]string{"serve", "--data-dir", dirs[0]}, args...)...), start(t, binaries.kanzen, append([]string{"serve", "--data-dir", dirs[1]}, args...)...)}
	for i, p := range processes {
		servers[i] = &kanzen{process: p, dir: dirs[i]}
		servers[i].address = greeting.FindStringSubmatch(p.line())[1]
	}
	// The administrator of one server, at the other, by the address that it printed.
	for i, s := range servers {
		c, err := clientcmd.BuildConfigFromFlags("", servers[1-i].kubeconfig())
		must(t, err)
		c.Host = "https://" + strings.Fields(s.address)[0]
		if host, _, err := net.SplitHostPort(strings.TrimPrefix(c.Host, "https://")); err != nil || net.ParseIP(host) == nil || net.ParseIP(host).IsUnspecified() {
			t.Errorf("it prints %s", s.address)
		}
		for _, name := range []string{"", "api.example.com", "192.0.2.77", "localhost"} {
			c.ServerName = name
			k := kubernetes.NewForConfigOrDie(c)
			within(t, 30*time.Second, "the other's administrator at "+c.Host+" as "+name, func(ctx context.Context) bool {
				_, err := k.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
				return err == nil
			})
		}
	}
	token, stderr, code := output(t, binaries.kubectl, "--kubeconfig", servers[0].kubeconfig(), "create", "token", "default")
	if code != 0 {
		t.Fatal(stderr)
	}
	// Only the token: kubectl would prefer the certificate of a kubeconfig.
	bare := "--kubeconfig=" + os.DevNull
	who, stderr, _ := output(t, binaries.kubectl, bare, "--server", "https://"+strings.Fields(servers[1].address)[0], "--certificate-authority", filepath.Join(dirs[0], "pki", "ca.crt"),
		"--token", strings.TrimSpace(token), "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
	if who != "system:serviceaccount:default:default" {
		t.Errorf("the token of one server is at the other %q %s", who, stderr)
	}

	// A server that would differ is refused.
	must(t, os.WriteFile(key, []byte(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 32)))), 0o600))
	for name, more := range map[string][]string{"another key": {"--cluster-key-file", key}, "same key as the others": nil} {
		p := start(t, binaries.kanzen, append([]string{"serve", "--secure-port=0", "--data-dir", filepath.Join(t.TempDir(), "c"), "--etcd-servers", etcd}, more...)...)
		if code := p.exit(); code == 0 || !strings.Contains(p.stderr.String(), name) {
			t.Errorf("%s: %d %s", name, code, p.stderr.String())
		}
	}
}
