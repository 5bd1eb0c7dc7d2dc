package test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWrongUse makes the mistakes of a first hour. Each is answered by one line that says what is wrong and what to do, and
// by exit code 1.
func TestWrongUse(t *testing.T) {
	t.Parallel()
	running := serve(t, filepath.Join(t.TempDir(), "running"))
	scratch := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(scratch, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	plain, newer := file("plain", "x"), filepath.Dir(file("newer/kanzen.json", `{"kanzen":"9.0.0","kubernetes":"1.99.0"}`))
	broken := file("broken/pki/admin.kubeconfig", "users: [")
	pki := func(name string) string { return filepath.Join(running.dir, "pki", name) }
	foreign := filepath.Dir(file("foreign/notes", ""))
	for _, c := range []struct {
		name, args string
		says       string // on standard error
	}{
		{"unknown command", "sevre", `unknown command "sevre"; did you mean 'kanzen serve'?`},
		{"unknown command, far from any", "xxxxxxxx", `unknown command "xxxxxxxx"; 'kanzen --help' shows the commands`},
		{"argument too many", "serve now", `unknown command "now" for "kanzen serve"`},
		{"unknown flag", "serve --sekure-port=1", "unknown flag: --sekure-port; did you mean --secure-port?"},
		{"part of a flag", "serve --port=1", "unknown flag: --port; did you mean --"},
		{"flag without value", "serve --secure-port", "flag needs an argument: --secure-port"},
		{"value that is none", "serve --secure-port=ninety", `--secure-port: "ninety" is not a whole number`},
		{"port out of range", "serve --secure-port=99999", "--secure-port: 99999 is not a port"},
		{"port in use", "serve --data-dir=DIR --secure-port=" + running.port(), "address already in use; choose another port with --secure-port"},
		{"address of another machine", "serve --data-dir=DIR --secure-port=0 --bind-address=192.0.2.1", "this machine does not have the address; choose another with --bind-address"},
		{"address that is none", "serve --bind-address=here", `--bind-address: "here" is not an IP address`},
		{"data in use", "serve --secure-port=0 --data-dir=" + running.dir, "another server runs on it: stop that one, or name another directory with --data-dir"},
		{"data directory is a file", "serve --secure-port=0 --data-dir=" + plain, "is a file; name a directory with --data-dir"},
		{"data directory below a file", "serve --secure-port=0 --data-dir=" + plain + "/data", "not a directory; name another with --data-dir"},
		{"data directory cannot be written", "serve --secure-port=0 --data-dir=/sys/kanzen", "cannot be written (operation not permitted); name another with --data-dir"},
		{"data directory of a newer version", "serve --secure-port=0 --data-dir=" + newer, "was last used by kanzen 9.0.0, which serves Kubernetes 1.99.0"},
		{"no data directory", "serve --data-dir=", "--data-dir: name a directory"},
		{"unknown controller", "serve --controllers=nobody", "--controllers:"},
		{"unknown mode", "serve --authorization-mode=Nobody", `--authorization-mode: "Nobody" is not a valid mode`},
		{"unknown feature", "serve --feature-gates=Nothing=true", "--feature-gates: unrecognized feature gate: Nothing"},
		{"unknown format of the log", "serve --logging-format=xml", `--logging-format: "xml" is none of text, json`},
		{"certificate without key", "serve --tls-cert-file=" + pki("apiserver.crt"), "--tls-cert-file: goes together with --tls-private-key-file"},
		{"key without certificate", "serve --tls-private-key-file=" + pki("apiserver.key"), "--tls-cert-file: goes together with --tls-private-key-file"},
		{"key of another certificate", "serve --data-dir=DIR --secure-port=0 --tls-cert-file=" + pki("apiserver.crt") + " --tls-private-key-file=" + pki("ca.key"), "--tls-cert-file: " + pki("ca.key") + ": tls: private key does not match public key"},
		{"no such CA", "serve --data-dir=DIR --secure-port=0 --client-ca-file=/no/such/file", "--client-ca-file: open /no/such/file: no such file or directory"},
		{"CA that is none", "serve --data-dir=DIR --secure-port=0 --client-ca-file=" + plain, "--client-ca-file: read " + plain + ": no certificate in it"},
		{"no such token file", "serve --data-dir=DIR --secure-port=0 --token-auth-file=/no/such/file", "--token-auth-file: open /no/such/file: no such file or directory"},
		{"no such audit policy", "serve --data-dir=DIR --secure-port=0 --audit-policy-file=/no/such/file", "--audit-policy-file: "},
		{"no such encryption file", "serve --data-dir=DIR --secure-port=0 --encryption-provider-config=/no/such/file", "--encryption-provider-config: "},
		{"no such authentication file", "serve --data-dir=DIR --secure-port=0 --authentication-config=/no/such/file", "--authentication-config: "},
		{"etcd without port", "serve --etcd-servers=localhost", `--etcd-servers: "localhost" is not a URL like https://10.0.0.1:2379`},
		{"etcd's key without certificate", "serve --etcd-servers=https://127.0.0.1:1 --etcd-keyfile=/x", "--etcd-certfile: goes together with --etcd-keyfile"},
		{"kubeconfig before a server", "kubeconfig --data-dir=DIR", "no server has been started on DIR yet; 'kanzen serve --data-dir DIR' makes the kubeconfig"},
		{"broken kubeconfig", "kubeconfig --merge --data-dir=" + filepath.Dir(filepath.Dir(broken)), "is broken ("},
		{"group without user", "kubeconfig --group=dev --data-dir=" + running.dir, "--group: goes together with --user"},
		{"no time", "kubeconfig --user=a --ttl=0s --data-dir=" + running.dir, "--ttl: 0s is not a time that a certificate can be valid"},
		{"role that is none", "kubeconfig --user=a --bind=nothing --data-dir=" + running.dir, `--bind: clusterroles.rbac.authorization.k8s.io "nothing" not found`},
		{"namespace that is none", "kubeconfig --user=a --bind=view -n nowhere --data-dir=" + running.dir, `--namespace: namespaces "nowhere" not found`},
		{"user who is nobody", "kubeconfig --user= --data-dir=" + running.dir, "--user: names nobody"},
		{"kubeconfig of a person who has a broken one", "kubeconfig --merge --data-dir=" + running.dir + " KUBECONFIG=" + plain, "is not a kubeconfig; it was not changed"},
		{"kubeconfig of a person is a directory", "kubeconfig --merge --data-dir=" + running.dir + " KUBECONFIG=" + scratch, "is a directory"},
		{"number that is none, of a short flag", "serve --v=loud", `--v: "loud" is not a whole number`},
		{"test of nothing", "test", "it is written 'kanzen test"},
		{"snapshot to nowhere", "snapshot save", "it is written 'kanzen snapshot save FILE'; 0 arguments were given"},
		{"snapshot that is not there", "snapshot inspect /no/such/file", "/no/such/file: no such file or directory"},
		{"snapshot that is none", "snapshot inspect " + plain, "is no complete snapshot"},
		{"snapshot that is a directory", "snapshot inspect " + scratch, "it is a directory"},
		{"members of no etcd", "member list", "--etcd-servers: name the URL"},
		{"members of an etcd that is away", "member list --timeout=1s --etcd-servers=https://127.0.0.1:1", "--etcd-servers: no answer from https://127.0.0.1:1 within 1s"},
		{"member by name alone", "member add two --etcd-servers=https://127.0.0.1:1", "it is written 'kanzen member add NAME PEER-URL'; 1 arguments were given"},
		{"assets in a file", "assets --dir=" + plain, "--dir: "},
		{"assets for nobody", "assets --dir=DIR --for=nobody", "--for: \"nobody\" is none of"},
		{"encryption of no server", "encryption status --data-dir=DIR KUBECONFIG=", "none has been started on DIR"},
		{"kubectl before a server", "kubectl --data-dir DIR get ns", "no server has been started on DIR yet"},
		{"reset of nothing", "reset --yes --data-dir=DIR", "there is no data directory DIR; name it with --data-dir"},
		{"reset under a server", "reset --yes --data-dir=" + running.dir, running.dir + " is in use: a server runs on it; stop it first"},
		{"reset of another's directory", "reset --yes --data-dir=" + foreign, "is no data directory of kanzen's"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			args := strings.Fields(strings.ReplaceAll(c.args, "DIR", dir))
			var env []string
			args = slices.DeleteFunc(args, func(a string) bool {
				isEnv := strings.HasPrefix(a, "HOME=") || strings.HasPrefix(a, "KUBECONFIG=")
				if isEnv {
					env = append(env, a)
				}
				return isEnv
			})
			stdout, stderr, code := output(t, "env", append(append(env, binaries.kanzen), args...)...)
			got, want := withoutSteps(stderr), strings.ReplaceAll(c.says, "DIR", dir)
			if code != 1 || stdout != "" {
				t.Errorf("exit code %d, standard output %q", code, stdout)
			}
			if strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, "Error: ") || !strings.Contains(got, want) {
				t.Errorf("on standard error: %q, want one line with %q", got, want)
			}
		})
	}
	t.Cleanup(func() {
		if _, err := running.client().CoreV1().Namespaces().Get(context.Background(), "default", metav1.GetOptions{}); err != nil {
			t.Errorf("the running server: %v", err)
		}
	})
}

// A port that is in use is found before anything is made.
func TestNothingIsMadeIfThePortIsInUse(t *testing.T) {
	t.Parallel()
	running := serve(t, t.TempDir())
	dir := filepath.Join(t.TempDir(), "data")
	if _, stderr, code := output(t, binaries.kanzen, "serve", "--data-dir", dir, "--secure-port", running.port()); code != 1 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is there (%v)", dir, err)
	}
}

// What the greeting prints works from any directory, also for a relative --data-dir.
func TestGreetingHasAbsolutePaths(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp(".", "relative-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	k := serve(t, dir)
	want, err := filepath.Abs(k.kubeconfig())
	must(t, err)
	if got := strings.TrimSpace(k.lines[1]); got != "export KUBECONFIG="+want {
		t.Errorf("%q, want the path %s", got, want)
	}
	stop(t, k, 15)
}

// A user's kubeconfig carries what it says, for as long as it says.
func TestKubeconfigOfUser(t *testing.T) {
	t.Parallel()
	k := serve(t, t.TempDir())
	if _, err := k.client().CoreV1().Namespaces().Create(t.Context(), namespace("team"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	alice := filepath.Join(t.TempDir(), "alice")
	for range 2 { // the second time the binding is there
		stdout, stderr, code := output(t, binaries.kanzen, "kubeconfig", "--data-dir", k.dir, "--user", "alice", "--group", "dev", "--ttl", "2h", "--bind", "edit", "-n", "team")
		if code != 0 {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		must(t, os.WriteFile(alice, []byte(stdout), 0o600))
	}
	kubectl := func(args ...string) (string, int) {
		stdout, stderr, code := output(t, binaries.kubectl, append([]string{"--kubeconfig", alice}, args...)...)
		return stdout + stderr, code
	}
	if out, code := kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username} {.status.userInfo.groups}"); code != 0 || out != `alice ["dev","system:authenticated"]` {
		t.Errorf("whoami: %d, %s", code, out)
	}
	within(t, 30*time.Second, "the binding counts", func(context.Context) bool { _, code := kubectl("create", "configmap", "a"); return code == 0 })
	if out, code := kubectl("-n", "default", "get", "configmaps"); code == 0 || !strings.Contains(out, "forbidden") {
		t.Errorf("in another namespace: %d, %s", code, out)
	}
}

// kanzen kubeconfig --merge and kanzen kubectl need no server's path by hand.
func TestMergeAndKubectl(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("KUBECONFIG", "")
	t.Setenv("PATH", binaries.dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	k := serve(t, filepath.Join(home, ".local", "share", "kanzen"), "--secure-port=0")
	stdout, stderr, code := output(t, binaries.kanzen, "kubeconfig", "--merge")
	if want := filepath.Join(home, ".kube", "config") + " has the context kanzen: kubectl get namespaces\n"; code != 0 || stdout != want {
		t.Errorf("exit code %d, %q, %s", code, stdout, stderr)
	}
	for _, args := range [][]string{{binaries.kubectl, "--context=kanzen"}, {binaries.kanzen, "kubectl"}} {
		stdout, stderr, code := output(t, args[0], append(args[1:], "get", "namespaces", "-o", "name")...)
		if code != 0 || !strings.Contains(stdout, "namespace/kube-system\n") {
			t.Errorf("%v: exit code %d, %q, %s", args, code, stdout, stderr)
		}
	}
	if _, _, code := output(t, binaries.kanzen, "kubectl", "get", "nothing"); code != 1 {
		t.Errorf("exit code %d, want kubectl's", code)
	}
	t.Setenv("PATH", home)
	if _, stderr, code := output(t, binaries.kanzen, "kubectl", "get", "ns"); code != 1 || !strings.HasPrefix(stderr, "Error: there is no kubectl on PATH; ") {
		t.Errorf("without kubectl: exit code %d, %q", code, stderr)
	}
	stop(t, k, 15)
	if stdout, stderr, code := output(t, binaries.kanzen, "reset", "--yes"); code != 0 {
		t.Errorf("reset: exit code %d, %q, %s", code, stdout, stderr)
	}
	if _, err := os.Stat(k.dir); !os.IsNotExist(err) {
		t.Errorf("after reset: %v", err)
	}
}
