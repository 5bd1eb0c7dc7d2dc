package test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An etcd that does not answer is named, with its address and the reason; health says so to everyone meanwhile. When it
// comes, the server goes on.
func TestUnreachableEtcdIsNamed(t *testing.T) {
	t.Parallel()
	etcdPort, peerPort, port := freePort(t), freePort(t), freePort(t)
	client := "http://127.0.0.1:" + etcdPort
	k := start(t, binaries.kanzen, "serve", "--data-dir", t.TempDir(), "--secure-port="+port, "--etcd-servers="+client)
	within(t, 30*time.Second, "etcd is named", func(context.Context) bool {
		return strings.Contains(k.stderr.String(), `level=WARN msg="etcd does not answer; trying again" etcd-servers=`+client) &&
			strings.Contains(k.stderr.String(), "connection refused")
	})
	anonymous := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	code := func(path string) (code int, body string) {
		resp, err := anonymous.Get("https://127.0.0.1:" + port + path)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	if c, body := code("/readyz"); c != http.StatusInternalServerError || !strings.Contains(body, "[-]etcd failed") {
		t.Errorf("/readyz: %d\n%s", c, body)
	}
	if c, body := code("/metrics"); c != http.StatusUnauthorized {
		t.Errorf("/metrics: %d\n%s", c, body)
	}
	peer := "http://127.0.0.1:" + peerPort
	start(t, link(t, "etcd"), "--listen-client-urls="+client, "--advertise-client-urls="+client, "--listen-peer-urls="+peer,
		"--data-dir="+t.TempDir(), "--unsafe-no-fsync=true")
	for range 3 {
		_ = k.line() // the greeting
	}
	within(t, 60*time.Second, "/readyz answers 200", func(context.Context) bool { c, _ := code("/readyz"); return c == http.StatusOK })
	within(t, 60*time.Second, "the end of it is logged", func(context.Context) bool { return strings.Contains(k.stderr.String(), "etcd answers again") })
	if c, took := k.end(syscall.SIGTERM); c != 0 {
		t.Errorf("exit code %d after %v", c, took)
	}
}

// --audit-log-path alone is enough for `kanzen serve`.
func TestAuditWithoutPolicy(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "audit.log")
	k := serve(t, t.TempDir(), "--audit-log-path="+file)
	if _, err := k.client().CoreV1().Namespaces().Create(t.Context(), namespace("audited"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	within(t, 30*time.Second, "the request is recorded", func(context.Context) bool {
		b, _ := os.ReadFile(file)
		for line := range bytes.Lines(b) {
			var ev struct {
				Level, Stage, Verb string
				ObjectRef          struct{ Name string }
				RequestObject      any
			}
			if json.Unmarshal(line, &ev) == nil && ev.ObjectRef.Name == "audited" && ev.Verb == "create" {
				return ev.Level == "Metadata" && ev.Stage == "ResponseComplete" && ev.RequestObject == nil
			}
		}
		return false
	})
}

// Logs are JSON lines by a flag, from the first to the last.
func TestLogsAreJSON(t *testing.T) {
	t.Parallel()
	k := serve(t, t.TempDir(), "--logging-format=json", "-v=4")
	if code, _ := k.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(k.stderr.String()) {
		var l struct{ Time, Level, Msg, Took string }
		if err := json.Unmarshal([]byte(line), &l); err != nil || l.Time == "" || l.Level == "" || l.Msg == "" {
			t.Errorf("%v: %s", err, line)
		}
		seen[l.Msg] = l.Took != ""
		if strings.HasPrefix(l.Msg, "etcd: ") {
			seen["etcd"] = true
		}
	}
	for _, msg := range []string{"embedded etcd is open", "keys and certificates are loaded", "first objects are there", "serving", "requests are done", "stopped", "etcd"} {
		if !seen[msg] {
			t.Errorf("no line %q", msg)
		}
	}
}

// A certificate that has expired, or soon does, is warned of, and still served.
func TestExpiringCertificateIsWarnedOf(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		left time.Duration
		says string
	}{
		"expired":      {-time.Hour, `msg="a certificate has expired, and clients refuse it`},
		"expires soon": {9*24*time.Hour + time.Hour, `days=9`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cert, key := shortLived(t, c.left)
			k := serve(t, t.TempDir(), "--tls-cert-file="+cert, "--tls-private-key-file="+key)
			within(t, 30*time.Second, "it is warned of", func(context.Context) bool { return strings.Contains(k.stderr.String(), c.says) })
			if !strings.Contains(k.stderr.String(), "flag=--tls-cert-file") {
				t.Error(k.stderr.String())
			}
		})
	}
}

// shortLived makes a serving certificate that is valid for so long from now.
func shortLived(t *testing.T, left time.Duration) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "short"}, NotBefore: time.Now().Add(-48 * time.Hour),
		NotAfter: time.Now().Add(left), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	must(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	certFile, keyFile = filepath.Join(t.TempDir(), "crt"), filepath.Join(t.TempDir(), "key")
	must(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
	return certFile, keyFile
}
