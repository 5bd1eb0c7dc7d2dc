package test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
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
	saved, empty := filepath.Join(scratch, "saved.db"), file("empty", "")
	if _, stderr, code := output(t, binaries.kanzen, "snapshot", "save", saved, "--data-dir="+running.dir); code != 0 {
		t.Fatal(stderr)
	}
	content, err := os.ReadFile(saved)
	must(t, err)
	cut, used := file("cut.db", string(content[:len(content)/2])), file("used/etcd/note", "")
	content[len(content)/2]++
	damaged := file("damaged.db", string(content))
	admin, err := os.ReadFile(running.kubeconfig())
	must(t, err)
	away := file("away", strings.ReplaceAll(string(admin), running.address, "127.0.0.1:1"))
	elsewhere := file("elsewhere", strings.ReplaceAll(string(admin), "current-context: ", "current-context: no-"))
	for _, c := range []struct {
		name, args string
		says       string // on standard error
	}{
		{"unknown command", "sevre", `unknown command "sevre"; did you mean 'kanzen serve'?`},
		{"unknown command below one", "snapshot sav", `unknown command "sav"; did you mean 'kanzen snapshot save'?`},
		{"unknown command below member", "member grow", `unknown command "grow"; 'kanzen member --help' lists the commands`},
		{"unknown command below encryption", "encryption stat", `unknown command "stat"; did you mean 'kanzen encryption status'?`},
		{"no command", "@", `unknown command ""; 'kanzen --help' lists the commands`},
		{"line break", "serve --tls-san=a@nb", `--tls-san: "a\nb": it contains a line break`},
		{"line break in a name", "kubeconfig --user=al@nice", `--user: "al\nice": it contains a line break`},
		{"space before", "serve --data-dir=@sdata", `--data-dir: " data": it begins or ends with a space`},
		{"space after", "serve --client-ca-file=" + pki("ca.crt") + "@s", "--client-ca-file: \"" + pki("ca.crt") + " \": it begins or ends with a space"},
		{"space in a number", "serve --secure-port=@s6443", `--secure-port: " 6443" is not a whole number`},
		{"space in a list", "serve --authorization-mode=Node,@sRBAC", `--authorization-mode: "Node, RBAC": it contains a space beside a comma`},
		{"unknown command, far from any", "xxxxxxxx", `unknown command "xxxxxxxx"; 'kanzen --help' lists the commands`},
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
		{"kubeconfig before a server", "kubeconfig --data-dir=DIR", "no server has been started on DIR yet; 'kanzen serve --data-dir DIR' creates the kubeconfig"},
		{"broken kubeconfig", "kubeconfig --merge --data-dir=" + filepath.Dir(filepath.Dir(broken)), "is broken ("},
		{"group without user", "kubeconfig --group=dev --data-dir=" + running.dir, "--group: works only together with --user"},
		{"no time", "kubeconfig --user=a --ttl=0s --data-dir=" + running.dir, "--ttl: 0s is not a valid lifetime of a certificate"},
		{"role that is none", "kubeconfig --user=a --bind=nothing --data-dir=" + running.dir, `--bind: clusterroles.rbac.authorization.k8s.io "nothing" not found`},
		{"namespace that is none", "kubeconfig --user=a --bind=view -n nowhere --data-dir=" + running.dir, `--namespace: namespaces "nowhere" not found`},
		{"user who is nobody", "kubeconfig --user= --data-dir=" + running.dir, "--user: the name is empty"},
		{"kubeconfig of a person who has a broken one", "kubeconfig --merge --data-dir=" + running.dir + " KUBECONFIG=" + plain, "is not a kubeconfig; it was not changed"},
		{"kubeconfig of a person is a directory", "kubeconfig --merge --data-dir=" + running.dir + " KUBECONFIG=" + scratch, "is a directory"},
		{"number that is none, of a short flag", "serve --v=loud", `--v: "loud" is not a whole number`},
		{"kubeconfig of nothing", "why ns/default --kubeconfig=" + empty, "--kubeconfig: " + empty + " names no server"},
		{"kubeconfig that is none", "diagnose --kubeconfig=" + plain, "--kubeconfig: error loading config file \"" + plain + "\""},
		{"kubeconfig of a server that is away", "diagnose --kubeconfig=" + away, "connection refused; start the server, or name another with --kubeconfig or --data-dir"},
		{"kubeconfig with another context", "top --kubeconfig=" + elsewhere, "--kubeconfig: " + elsewhere + ": invalid configuration: [context was not found"},
		{"test of what is not there", "test -- no-such-command", `exec: "no-such-command": executable file not found in $PATH`},
		{"test of a file that cannot run", "test -- " + plain, "permission denied"},
		{"test with a wrong flag", "test --secure-port=99999 -- true", "--secure-port: 99999 is not a port"},
		{"test in a file", "test --data-dir=" + plain + " -- true", "is a file; name a directory with --data-dir"},
		{"test of nothing", "test", "usage: kanzen test"},
		{"snapshot to nowhere", "snapshot save", "usage: kanzen snapshot save FILE; got 0 arguments"},
		{"snapshot that is not there", "snapshot inspect /no/such/file", "/no/such/file: no such file or directory"},
		{"snapshot that is none", "snapshot inspect " + plain, "is no complete snapshot"},
		{"snapshot that is a directory", "snapshot inspect " + scratch, "it is a directory"},
		{"snapshot to an empty name", "snapshot save @ --data-dir=" + running.dir, "name the file to save to"},
		{"snapshot to a directory", "snapshot save " + scratch + " --data-dir=" + running.dir, scratch + ": it is a directory; name a file"},
		{"snapshot in no directory", "snapshot save DIR/db --data-dir=" + running.dir, "DIR: no such file or directory"},
		{"snapshot of a server that is away", "snapshot save DIR --kubeconfig=" + away, "connection refused; start the server"},
		{"snapshot of another context", "snapshot save DIR --kubeconfig=" + elsewhere, "--kubeconfig: " + elsewhere + ": invalid configuration"},
		{"snapshot of no etcd", "snapshot save DIR --etcd-servers=localhost", `--etcd-servers: "localhost" is not a URL like https://10.0.0.1:2379`},
		{"snapshot that is empty", "snapshot inspect " + empty, "it is cut off, or a copy of a data directory's file"},
		{"snapshot that is cut off", "snapshot inspect " + cut, "is no complete snapshot"},
		{"snapshot that is damaged", "snapshot inspect " + damaged, "its checksum is wrong"},
		{"snapshot in another form", "snapshot inspect -o=yaml " + saved, `--output: "yaml" is not json`},
		{"difference to nothing", "snapshot diff " + saved + " /no/such/file", "/no/such/file: no such file or directory"},
		{"difference to what is none", "snapshot diff " + plain + " " + saved, plain + ": the file is no complete snapshot"},
		{"difference to a damaged one", "snapshot diff " + saved + " " + damaged, damaged + ": the file is no complete snapshot: its checksum is wrong"},
		{"difference to a server that is away", "snapshot diff " + saved + " --kubeconfig=" + away, "connection refused; start the server"},
		{"differences of nothing", "snapshot diff", "usage: kanzen snapshot diff FILE [OTHER]; got 0 arguments"},
		{"restore of nothing", "snapshot restore", "usage: kanzen snapshot restore FILE; got 0 arguments"},
		{"restore to nowhere", "snapshot restore " + saved, "name the destination: --to-data-dir creates a new data directory"},
		{"restore of what is not there", "snapshot restore /no/such/file --to-data-dir=DIR", "/no/such/file: no such file or directory"},
		{"restore of what is none", "snapshot restore " + plain + " --to-data-dir=DIR", plain + ": the file is no complete snapshot"},
		{"restore of what is cut off", "snapshot restore " + cut + " --to-data-dir=DIR", cut + ": the file is no complete snapshot"},
		{"restore of what is damaged", "snapshot restore " + damaged + " --to-data-dir=DIR", "its checksum is wrong"},
		{"restore to what is there", "snapshot restore " + saved + " --to-data-dir=" + filepath.Dir(filepath.Dir(used)), filepath.Dir(used) + " is not empty; restore to a new directory"},
		{"restore under a server", "snapshot restore " + saved + " --to-data-dir=" + running.dir, "is not empty; restore to a new directory"},
		{"restore to a file", "snapshot restore " + saved + " --to-data-dir=" + plain, "--to-data-dir: "},
		{"restore for no member", "snapshot restore " + saved + " --to-data-dir=DIR --member-name=two", `--initial-cluster: it does not contain "two", the --member-name`},
		{"restore for a member without URL", "snapshot restore " + saved + " --to-data-dir=DIR --initial-cluster=one", `--initial-cluster: "one" is not of the form name=https://address:port`},
		{"restore of two kinds", "snapshot restore " + saved + " --to-data-dir=DIR --all", "--to-data-dir restores everything; it does not work together with"},
		{"restore of what it does not have", "snapshot restore " + saved + " --resource=widgets --data-dir=" + running.dir, "contains no selected object"},
		{"restore to a server that is away", "snapshot restore " + saved + " --all --kubeconfig=" + away, "connection refused; start the server"},
		{"members without TLS", "member list --timeout=1s --etcd-servers=http://" + running.address, "it does not answer without TLS; if it wants that, its URL is https://"},
		{"members by an unknown authority", "member list --timeout=1s --etcd-servers=https://" + running.address, "signed by unknown authority; name its authority with --etcd-cafile"},
		{"members of a wrong address", "member list --etcd-servers=localhost", `--etcd-servers: "localhost" is not a URL like https://10.0.0.1:2379`},
		{"members in no time", "member list --timeout=-1s --etcd-servers=https://127.0.0.1:1", "--timeout: -1s is not a time to wait"},
		{"members with the certificates of nothing", "member list --data-dir=DIR --etcd-servers=https://127.0.0.1:1", "--etcd-cafile: open DIR/pki/etcd/ca.crt: no such file"},
		{"a member's peer URL without a scheme", "member add two localhost --etcd-servers=https://127.0.0.1:1", `"localhost" is not of the form https://address:port`},
		{"removal of nobody", "member remove --etcd-servers=https://127.0.0.1:1", "usage: kanzen member remove NAME; got 0 arguments"},
		{"promotion of two", "member promote a b --etcd-servers=https://127.0.0.1:1", "usage: kanzen member promote NAME; got 2 arguments"},
		{"members of no etcd", "member list", "--etcd-servers: name the URL"},
		{"members of an etcd that is away", "member list --timeout=1s --etcd-servers=https://127.0.0.1:1", "--etcd-servers: https://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused"},
		{"member by name alone", "member add two --etcd-servers=https://127.0.0.1:1", "usage: kanzen member add NAME PEER-URL; got 1 arguments"},
		{"assets in a file", "assets --dir=" + plain, "--dir: "},
		{"assets for nobody", "assets --dir=DIR --for=nobody", "--for: \"nobody\" is not one of"},
		{"encryption of a server that encrypts nothing", "encryption status --data-dir=" + running.dir + " KUBECONFIG=", "started without --encryption-provider-config"},
		{"encryption of a server that is away", "encryption rewrite --kubeconfig=" + away, "connection refused; start the server"},
		{"encryption of too much", "encryption status secrets", `unknown command "secrets" for "kanzen encryption status"`},
		{"encryption of no server", "encryption status --data-dir=DIR KUBECONFIG=", "no server has been started on DIR"},
		{"kubectl before a server", "kubectl --data-dir DIR get ns", "no server has been started on DIR yet"},
		{"reset of nothing", "reset --yes --data-dir=DIR", "there is no data directory DIR; name it with --data-dir"},
		{"reset under a server", "reset --yes --data-dir=" + running.dir, running.dir + " is in use: a server runs on it; stop it first"},
		{"reset of another's directory", "reset --yes --data-dir=" + foreign, "is no data directory of kanzen's"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			args := strings.Fields(strings.ReplaceAll(c.args, "DIR", dir))
			for i := range args { // what strings.Fields would take for a separator
				args[i] = strings.NewReplacer("@n", "\n", "@s", " ", "@", "").Replace(args[i])
			}
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
			if strings.Contains(stderr, "goroutine ") {
				t.Error("a stack is no help")
			}
			if _, err := os.Lstat(dir); !os.IsNotExist(err) {
				t.Errorf("%s is left behind (%v)", dir, err)
			}
		})
	}
	t.Cleanup(func() {
		if _, err := running.client().CoreV1().Namespaces().Get(context.Background(), "default", metav1.GetOptions{}); err != nil {
			t.Errorf("the running server: %v", err)
		}
	})
}

// Certificates that others refuse keep no server from its start, as in kube-apiserver: what renews them may run on it. Each is told
// in one line, with its flag and what to do.
func TestCertificatesThatOthersRefuse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const hour, year = time.Hour, 365 * 24 * time.Hour
	pair := func(name string, from, until time.Duration, more func(*x509.Certificate)) (cert, key string) {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(t, err)
		c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(until),
			BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
		more(c)
		der, err := x509.CreateCertificate(rand.Reader, c, c, k.Public(), k)
		must(t, err)
		keyDER, err := x509.MarshalPKCS8PrivateKey(k)
		must(t, err)
		cert, key = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
		must(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
		must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
		return cert, key
	}
	plain := func(*x509.Certificate) {}
	early, earlyKey := pair("early", hour, year, plain)
	late, lateKey := pair("late", -year, -hour, plain)
	leaf, _ := pair("leaf", -hour, year, plain)
	old, _ := pair("old", -year, -hour, func(c *x509.Certificate) { c.IsCA, c.KeyUsage = true, x509.KeyUsageCertSign })
	serving, servingKey := pair("serving", -hour, year, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })
	both, err := os.ReadFile(leaf)
	must(t, err)
	more, err := os.ReadFile(old)
	must(t, err)
	must(t, os.WriteFile(leaf, append(both, more...), 0o600))

	k := serve(t, filepath.Join(dir, "data"), "--tls-cert-file="+early, "--tls-private-key-file="+earlyKey, "--proxy-client-cert-file="+late,
		"--proxy-client-key-file="+lateKey, "--kubelet-client-certificate="+serving, "--kubelet-client-key="+servingKey, "--client-ca-file="+leaf)
	for _, says := range []string{
		`"a certificate is not valid yet, and clients refuse it: set the clock of this machine right, or replace the file, which is read again at once" flag=--tls-cert-file`,
		`"a certificate has expired, and servers refuse it: replace the file, which is read again at once" flag=--proxy-client-cert-file`,
		`"a certificate is not for clients, and servers refuse it: use one with the extended key usage clientAuth" flag=--kubelet-client-certificate`,
		`"a certificate in a file of authorities is none, and lets in only the client whose certificate it is: put its issuer's certificate there" flag=--client-ca-file`,
		`"a certificate authority of clients has expired, and clients with its certificates are refused: add the new authority to the file, which is read again at once" flag=--client-ca-file`,
	} {
		within(t, time.Minute, says, func(context.Context) bool { return strings.Contains(k.stderr.String(), says) })
		if n := strings.Count(k.stderr.String(), says); n != 1 {
			t.Errorf("%s: %d times", says, n)
		}
	}
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

// checkKubectlOrder runs kanzen kubectl where there is no kubectl, where PATH has one, and where another is beside kanzen: links to kanzen
// are followed first, as /usr/local/bin may have one.
func checkKubectlOrder(t *testing.T) {
	t.Helper()
	install := filepath.Join(t.TempDir(), "lib")
	kanzen := filepath.Join(install, "kanzen")
	copyFile(t, binaries.kanzen, kanzen)
	must(t, os.Chmod(kanzen, 0o700))
	bin := t.TempDir()
	must(t, os.Symlink(kanzen, filepath.Join(bin, "kanzen")))
	t.Setenv("PATH", bin)
	place := func(path string, mode os.FileMode) { // a program that says by which path and name it runs
		must(t, os.WriteFile(path, []byte("#!/bin/sh\necho "+filepath.Base(path)+" \"$@\" KUBECONFIG=$KUBECONFIG\nexit 7\n"), mode))
	}
	run := func() (string, string, int) { return output(t, filepath.Join(bin, "kanzen"), "kubectl", "a", "b c") }
	want := "Error: there is no kubectl: no kanzen-kubectl in " + install + ", "
	if _, stderr, code := run(); code != 1 || !strings.HasPrefix(stderr, want) || !strings.Contains(stderr, "no kubectl on PATH") {
		t.Errorf("without kubectl: exit code %d, %q", code, stderr)
	}
	config := filepath.Join(os.Getenv("HOME"), ".local", "share", "kanzen", "pki", "admin.kubeconfig")
	beside := filepath.Join(install, "kanzen-kubectl")
	for _, step := range []struct {
		place func()
		want  string
	}{
		{func() { place(filepath.Join(bin, "kubectl"), 0o700) }, "kubectl"},
		{func() { place(beside, 0o600) }, "kubectl"}, // nothing that runs
		{func() { must(t, os.Chmod(beside, 0o700)) }, "kanzen-kubectl"},
	} {
		step.place()
		if stdout, stderr, code := run(); code != 7 || stdout != step.want+" a b c KUBECONFIG="+config+"\n" {
			t.Errorf("want %s: exit code %d, %q %s", step.want, code, stdout, stderr)
		}
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
	checkKubectlOrder(t)
	stop(t, k, 15)
	if stdout, stderr, code := output(t, binaries.kanzen, "reset", "--yes"); code != 0 {
		t.Errorf("reset: exit code %d, %q, %s", code, stdout, stderr)
	}
	if _, err := os.Stat(k.dir); !os.IsNotExist(err) {
		t.Errorf("after reset: %v", err)
	}
}
