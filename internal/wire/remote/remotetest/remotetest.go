// Package remotetest provides a webhook over TLS for tests, and its kubeconfig.
package remotetest

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// Serve starts a webhook and returns the path of a kubeconfig, whose user has
// the token "webhook-client".
func Serve(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	path := filepath.Join(t.TempDir(), "webhook.kubeconfig")
	config := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: webhook, cluster: {server: "%s/review", certificate-authority-data: %s}}]
users: [{name: server, user: {token: webhook-client}}]
contexts: [{name: webhook, context: {cluster: webhook, user: server}}]
current-context: webhook
`, s.URL, base64.StdEncoding.EncodeToString(ca))
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
