package kanzen

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/testcontainers/testcontainers-go"
)

// imageVariable names the image to run; `make test-containers` sets it.
const imageVariable = "KANZEN_IMAGE"

// TestRun has a server with a flag and a plane, and asks each as its administrator.
func TestRun(t *testing.T) {
	ctx := t.Context()
	server, err := Run(ctx, image(t), WithPlanes(), WithFlags("--emulated-version=1.36"))
	testcontainers.CleanupContainer(t, server)
	if err != nil {
		t.Fatal(err)
	}
	plane, err := server.Plane(ctx, "team-a")
	if err != nil {
		t.Fatal(err)
	}
	root, below := connect(ctx, t, server), connect(ctx, t, plane)
	var version struct{ EmulationMinor string }
	root.ask(t, "GET", "/version", "", http.StatusOK, &version)
	if version.EmulationMinor != "36" {
		t.Errorf("the flag has no effect: %q", version.EmulationMinor)
	}
	below.ask(t, "POST", "/api/v1/namespaces", `{"metadata":{"name":"shop"}}`, http.StatusCreated, nil)
	below.ask(t, "GET", "/api/v1/namespaces/shop", "", http.StatusOK, nil)
	root.ask(t, "GET", "/api/v1/namespaces/shop", "", http.StatusNotFound, nil)
	if _, err := server.Plane(ctx, "team-a"); err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("a plane twice: %v", err)
	}
}

// TestRefused has a flag that does not exist. The container comes with the error, and has the server's words.
func TestRefused(t *testing.T) {
	server, err := Run(t.Context(), image(t), WithFlags("--no-such-flag"))
	testcontainers.CleanupContainer(t, server)
	if err == nil || server == nil {
		t.Fatalf("%v, %v", server, err)
	}
	log, err := server.Logs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if text, err := io.ReadAll(log); err != nil || !strings.Contains(string(text), "unknown flag: --no-such-flag") {
		t.Errorf("%v %s", err, text)
	}
}

// image is the name of the image to run. It skips tests that have none.
func image(t *testing.T) string {
	t.Helper()
	name := os.Getenv(imageVariable)
	if name == "" {
		t.Skipf("$%s names no image of kanzen; make test-containers builds one, loads it and runs this test", imageVariable)
	}
	return name
}

// restConfig has the fields of client-go's rest.Config that Config fills in, under their names.
type restConfig struct {
	Host string
	tlsClientConfig
	QPS float32
}

type tlsClientConfig struct {
	ServerName                string
	CAData, CertData, KeyData []byte
}

// connection is a client of a server.
type connection struct {
	http.Client
	url string
}

func connect(ctx context.Context, t *testing.T, of interface {
	Kubeconfig(context.Context) ([]byte, error)
}) *connection {
	t.Helper()
	c, err := Config[restConfig](ctx, of)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(c.CertData, c.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(c.CAData)
	transport := &http.Transport{TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: authorities, ServerName: c.ServerName, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	return &connection{http.Client{Transport: transport}, c.Host}
}

// ask makes a request, and reads the answer into out if that is not nil.
func (c *connection) ask(t *testing.T, method, path, body string, want int, out any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, c.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != want {
		t.Errorf("%s %s: %s, want %d", method, path, answer.Status, want)
	}
	if out != nil {
		if err := json.NewDecoder(answer.Body).Decode(out); err != nil {
			t.Fatal(err)
		}
	}
}
