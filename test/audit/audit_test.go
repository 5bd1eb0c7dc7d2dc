package audit

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var (
	record = flag.Bool("record", false, "record what kube-apiserver writes")
	peer   = flag.String("peer", "", "directory of kube-apiserver and etcd, for -record")
)

// tokens of the users; nobody's is none.
const tokens = "admin,admin,1,system:masters\nalice,alice,2,people\n"

func TestSameEvents(t *testing.T) {
	bin := os.Getenv("KANZEN")
	if bin == "" && !*record {
		bin = filepath.Join(t.TempDir(), "kanzen")
		cmd := exec.Command("go", "build", "-o", bin, "./cmd/kanzen")
		cmd.Dir = "../.."
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
	}
	for _, level := range []string{"Metadata", "Request", "RequestResponse"} {
		t.Run(level, func(t *testing.T) {
			got, err := events(run(t, bin, level))
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", strings.ToLower(level)+".jsonl.gz")
			if *record {
				write(t, file, got)
				return
			}
			compare(t, got, read(t, file))
		})
	}
}

// compare tells of each request whose events differ.
func compare(t *testing.T, got, want []string) {
	if len(want) < 200 {
		t.Errorf("only %d events are recorded", len(want))
	}
	wanted := map[string]int{}
	for _, w := range want {
		w, err := normal([]byte(w))
		if err != nil {
			t.Fatal(err)
		}
		wanted[w]++
	}
	for _, g := range got {
		if wanted[g] == 0 {
			t.Errorf("is written:     %s", g)
			continue
		}
		wanted[g]--
	}
	for w, n := range wanted {
		for range n {
			t.Errorf("is not written: %s", w)
		}
	}
}

// run sends all requests to a server of its own and returns its audit log.
func run(t *testing.T, bin, level string) []byte {
	dir := t.TempDir()
	policy := "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: " + level + "\n"
	for name, text := range map[string]string{"tokens": tokens, "policy.yaml": policy} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	log := filepath.Join(dir, "audit.log")
	args := []string{"--token-auth-file", filepath.Join(dir, "tokens"), "--audit-policy-file", filepath.Join(dir, "policy.yaml"), "--audit-log-path", log}
	base := "https://127.0.0.1:" + start(t, dir, bin, args)
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	for n, a := range asks() {
		if err := send(client, base, n, a); err != nil {
			t.Fatalf("%s %s: %v", a.method, a.path, err)
		}
	}
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func send(client *http.Client, base string, n int, a ask) error {
	req, err := http.NewRequest(a.method, base+a.path, strings.NewReader(a.body))
	if err != nil {
		return err
	}
	for k, v := range a.headers {
		req.Header.Set(k, v)
	}
	if a.user != "" {
		req.Header.Set("Authorization", "Bearer "+a.user)
	}
	req.Header.Set("Audit-ID", fmt.Sprintf("ask-%03d", n))
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// start starts the server and returns its port.
func start(t *testing.T, dir, bin string, args []string) string {
	ports := freePorts(t, 3)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	if *record {
		client, cluster := "http://127.0.0.1:"+ports[1], "http://127.0.0.1:"+ports[2]
		begin(ctx, t, dir, filepath.Join(*peer, "etcd"), "--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", client,
			"--advertise-client-urls", client, "--listen-peer-urls", cluster, "--initial-advertise-peer-urls", cluster, "--initial-cluster", "default="+cluster)
		key := filepath.Join(dir, "key.pem")
		if out, err := exec.Command("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		begin(ctx, t, dir, filepath.Join(*peer, "kube-apiserver"), append(args, "--etcd-servers", client, "--bind-address", "127.0.0.1",
			"--secure-port", ports[0], "--cert-dir", dir, "--service-cluster-ip-range", "10.0.0.0/24", "--allow-privileged=true",
			"--authorization-mode", "Node,RBAC", "--service-account-issuer", "https://kubernetes.default.svc",
			"--service-account-key-file", key, "--service-account-signing-key-file", key, "--disable-admission-plugins", "ServiceAccount")...)
	} else {
		begin(ctx, t, dir, bin, append([]string{"serve", "--data-dir", filepath.Join(dir, "data"), "--secure-port", ports[0],
			"--controllers=", "--disable-admission-plugins", "ServiceAccount", "--flight-recorder-memory=0", "--extensions="}, args...)...)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		resp, err := client.Get("https://127.0.0.1:" + ports[0] + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return ports[0]
			}
		}
	}
	t.Fatal("the server does not get ready")
	return ""
}

// begin starts a program that is killed at the end of the test.
func begin(ctx context.Context, t *testing.T, dir, path string, args ...string) {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() && testing.Verbose() {
			b := out.Bytes()
			t.Logf("%s\n%s", path, b[max(0, len(b)-3000):])
		}
	})
}

func freePorts(t *testing.T, n int) []string {
	var out []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		out = append(out, port)
	}
	return out
}

func write(t *testing.T, file string, lines []string) {
	var buf bytes.Buffer
	z, _ := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	_, _ = io.WriteString(z, strings.Join(lines, "\n")+"\n")
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, buf.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d events", file, len(lines))
}

func read(t *testing.T, file string) []string {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}
