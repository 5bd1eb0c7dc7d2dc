// Package peer starts kube-apiserver and etcd beside the tests, to ask them
// what kanzen is to answer. Without the binaries in bench/peer/bin the tests
// that need them are skipped.
package peer

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// token is the administrator's.
const token = "peer-admin"

// bin is where the binaries are: tests run in folders below the root of the repository.
func bin() string {
	dir, err := os.Getwd()
	for err == nil {
		path := filepath.Join(dir, "bench", "peer", "bin")
		if _, err := os.Stat(path); err == nil || dir == filepath.Dir(dir) {
			return path
		}
		dir = filepath.Dir(dir)
	}
	return ""
}

// Users are people beside the administrator, each of whom has its name as token.
func Users() []string { return []string{"ask0", "ask1", "ask2", "ask3", "ask4", "ask5"} }

// Start starts kube-apiserver on fresh data, with further arguments, and
// returns how its administrator reaches it. It skips the test where there is none.
func Start(t testing.TB, args ...string) *rest.Config {
	t.Helper()
	return StartOn(t, Etcd(t), args...)
}

// program is the path of a binary. It skips the test where there is none.
func program(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(bin(), name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no peer: %v", err)
	}
	return path
}

// Older is the kube-apiserver of the version before, which make test-older builds. It skips the test where there is none.
func Older(t testing.TB) string {
	t.Helper()
	return program(t, "v1.36.3/kube-apiserver")
}

// Etcd starts etcd on fresh data and returns its address.
func Etcd(t testing.TB) string {
	t.Helper()
	return EtcdOn(t, filepath.Join(t.TempDir(), "etcd"))
}

// EtcdOn is Etcd on a data directory, which may have data.
func EtcdOn(t testing.TB, data string) string {
	t.Helper()
	path, dir := program(t, "etcd"), t.TempDir()
	client, member := "http://127.0.0.1:"+FreePort(t), "http://127.0.0.1:"+FreePort(t)
	run(t, dir, path, "--data-dir", data, "--unsafe-no-fsync",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", member, "--initial-advertise-peer-urls", member, "--initial-cluster", "default="+member)
	return client
}

// Kine starts kine on a new database of SQLite. It returns its address, for kube-apiserver, and the database's, as kine takes it.
func Kine(t testing.TB) (address, endpoint string) {
	t.Helper()
	path, dir, port := os.Getenv("KINE"), t.TempDir(), FreePort(t)
	if path == "" {
		path = program(t, "kine")
	}
	endpoint = "sqlite://" + filepath.Join(dir, "state.db") + "?_journal_mode=WAL&cache=shared&_busy_timeout=30000&_txlock=immediate" // as k3s has it
	run(t, dir, path, "--listen-address", "127.0.0.1:"+port, "--endpoint", endpoint, "--metrics-bind-address", "0")
	return "http://127.0.0.1:" + port, endpoint
}

// StartOn is Start on the data of an etcd. Servers with different arguments may share it.
func StartOn(t testing.TB, etcd string, args ...string) *rest.Config {
	t.Helper()
	return StartAs(t, etcd, "", FreePort(t), args...)
}

// StartAs is StartOn for servers that know each other by the name of their machine, and at a port. It skips the test where names
// cannot be given.
func StartAs(t testing.TB, etcd, machine, port string, args ...string) *rest.Config {
	t.Helper()
	path, dir := program(t, "kube-apiserver"), t.TempDir()
	runAs(t, machine, dir, path, append(flags(t, dir, port, etcd), args...)...)
	return awaitReady(t, dir, path, port)
}

// StartProgram is StartAs for another program that has kube-apiserver's flags: kanzen, of which the test has built one, or an older version.
func StartProgram(t testing.TB, path, etcd, machine, port string, args ...string) *rest.Config {
	t.Helper()
	dir := t.TempDir()
	runAs(t, machine, dir, path, append(flags(t, dir, port, etcd), args...)...)
	return awaitReady(t, dir, path, port)
}

// StartUnready starts kube-apiserver, or another program with its flags ("": that one), which does not become ready; it waits until
// it answers.
func StartUnready(t testing.TB, path, etcd string, args ...string) *rest.Config {
	t.Helper()
	if path == "" {
		path = program(t, "kube-apiserver")
	}
	dir, port := t.TempDir(), FreePort(t)
	run(t, dir, path, append(flags(t, dir, port, etcd), args...)...)
	return await(t, dir, path, port, "/livez/ping")
}

// awaitReady waits until a server that was just started is ready.
func awaitReady(t testing.TB, dir, path, port string) *rest.Config {
	t.Helper()
	return await(t, dir, path, port, "/readyz")
}

func await(t testing.TB, dir, path, port, check string) *rest.Config {
	t.Helper()
	c := &rest.Config{Host: "https://127.0.0.1:" + port, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: -1}
	ready := kubernetes.NewForConfigOrDie(c).Discovery().RESTClient()
	deadline := time.Now().Add(3 * time.Minute)
	for {
		if _, err := ready.Get().AbsPath(check).DoRaw(t.Context()); err == nil {
			return c
		} else if time.Now().After(deadline) {
			t.Fatalf("the peer does not become ready: %v\n%s", err, tail(dir, filepath.Base(path)))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// flags are those that every kube-apiserver has, with files in a directory.
func flags(t testing.TB, dir, port, etcd string) []string {
	t.Helper()
	key, tokens := filepath.Join(dir, "sa.key"), filepath.Join(dir, "tokens.csv")
	writeKey(t, key)
	lines := token + ",admin,admin,system:masters\n"
	for _, u := range Users() {
		lines += u + "," + u + ",\n"
	}
	if err := os.WriteFile(tokens, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--etcd-servers", etcd, "--bind-address", "127.0.0.1", "--secure-port", port,
		"--cert-dir", filepath.Join(dir, "certs"), "--service-cluster-ip-range", "10.0.0.0/24", "--allow-privileged=true",
		"--authorization-mode", "Node,RBAC", "--service-account-issuer", "https://kubernetes.default.svc",
		"--service-account-key-file", key, "--service-account-signing-key-file", key, "--token-auth-file", tokens}
}

// Refusal is why kube-apiserver does not start on the data of an etcd with some arguments; "" if it does not end by itself.
func Refusal(t testing.TB, etcd string, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program(t, "kube-apiserver"), append(flags(t, dir, FreePort(t), etcd), args...)...)
	cmd.Dir, cmd.Env = dir, environment()
	out, err := cmd.CombinedOutput()
	if err == nil || ctx.Err() != nil {
		return ""
	}
	_, said, _ := strings.Cut(string(out), `"command failed" err=`) // another goroutine may still log something after it
	if lines, ok := strings.CutPrefix(said, "<\n"); ok {            // as its log has what is of several lines
		lines, _, _ = strings.Cut(lines, "\n >")
		return strings.ReplaceAll(strings.TrimPrefix(lines, "\t"), "\n\t", "\n")
	}
	said, _, _ = strings.Cut(said, "\n")
	why, err := strconv.Unquote(said)
	if err != nil {
		t.Fatalf("kube-apiserver says %s", out)
	}
	return why
}

// environment is that of programs. kube-apiserver takes five seconds of a processor to start, a quarter of them to collect garbage:
// it may leave more of it.
func environment() []string { return append(os.Environ(), "GOGC=400", "GOMEMLIMIT=512MiB") }

// run starts a program that ends with the test.
func run(t testing.TB, dir, path string, args ...string) {
	t.Helper()
	runAs(t, "", dir, path, args...)
}

// StartStoppable starts kube-apiserver, or another program with its flags ("": that one). stop sends it a signal and waits for its end.
func StartStoppable(t testing.TB, path, etcd string, args ...string) (c *rest.Config, stop func(os.Signal)) {
	t.Helper()
	if path == "" {
		path = program(t, "kube-apiserver")
	}
	dir, port := t.TempDir(), FreePort(t)
	cmd := runAs(t, "", dir, path, append(flags(t, dir, port, etcd), args...)...)
	return awaitReady(t, dir, path, port), func(s os.Signal) {
		_ = cmd.Process.Signal(s) // it may have ended already
		_ = cmd.Wait()
	}
}

// runAs is run for a program that takes its machine to have a name; "": its own.
func runAs(t testing.TB, machine, dir, path string, args ...string) *exec.Cmd {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, filepath.Base(path)+".log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, environment(), log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if machine != "" {
		if os.Geteuid() != 0 {
			t.Skip("only root may name a machine")
		}
		cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `hostname "$0" && exec "$@"`, machine, path}, args...)
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUTS
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended already
		_ = cmd.Wait()
		_ = log.Close()
	})
	return cmd
}

// tail is the end of what a program said.
func tail(dir, program string) string {
	data, err := os.ReadFile(filepath.Join(dir, program+".log"))
	if err != nil {
		return err.Error()
	}
	return program + ": " + string(data[max(0, len(data)-2000):]) + "\n"
}

// FreePort returns a port of 127.0.0.1 on which nobody listens, for a test. It is none of those that the system gives to clients and to
// listeners without a wish: before the program that is to have it listens, others would be given it. Other tests, also those of other
// packages, are not given it until the test ends: meanwhile the test holds the port of UDP with the same number.
func FreePort(t testing.TB) string {
	t.Helper()
	for range 1000 {
		port := strconv.Itoa(10_000 + mathrand.IntN(20_000))
		address := net.JoinHostPort("127.0.0.1", port)
		held, err := net.ListenPacket("udp", address)
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			_ = held.Close()
			continue
		}
		t.Cleanup(func() { _ = held.Close() })
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return port
	}
	t.Fatal("no port is free")
	panic("unreachable")
}

func writeKey(t testing.TB, path string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// StartManager starts kube-controller-manager on a server, as its administrator. It skips the test where there is none.
func StartManager(t testing.TB, c *rest.Config, args ...string) {
	t.Helper()
	path, dir := program(t, "kube-controller-manager"), t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n" +
		"clusters: [{name: c, cluster: {server: '" + c.Host + "', insecure-skip-tls-verify: true}}]\nusers: [{name: u, user: {token: '" + c.BearerToken + "'}}]\n"
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, dir, path, append([]string{"--kubeconfig", kubeconfig, "--leader-elect=false", "--secure-port=0"}, args...)...)
}
