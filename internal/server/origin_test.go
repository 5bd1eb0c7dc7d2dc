package server

import (
	"crypto/tls"
	"crypto/x509"
	"net/http/httptest"
	"testing"

	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/process/config"
)

// TestForeignPagesOpenNoStreams asks for upgrades as a browser does on behalf of another site's page: `kanzen serve` refuses
// them, a server with kube-apiserver's defaults does not look, as that one does not.
func TestForeignPagesOpenNoStreams(t *testing.T) {
	if config.Default().WebSocketOriginCheck || !config.Standalone().WebSocketOriginCheck {
		t.Error("the defaults are wrong")
	}
	for checks, set := range map[bool]func(*config.Config){true: func(*config.Config) {}, false: func(c *config.Config) { c.WebSocketOriginCheck = false }} {
		s := startWith(t, set)
		for _, path := range []string{"/api/v1/namespaces/default/pods/p/exec?command=sh&stdout=1", "/api/v1/namespaces/default/pods/p/attach?stdout=1", "/api/v1/namespaces/default/pods/p/portforward",
			"/api/v1/namespaces/default/pods/p/proxy/", "/api/v1/namespaces/default/services/s/proxy/", "/api/v1/nodes/n/proxy/exec/x", "/api/v1/pods?watch=1&timeoutSeconds=1", "/api/v1/namespaces/default/pods/p/log"} {
			for origin, foreign := range map[string]bool{"": false, "https://example.com": false, "https://evil.test": true, "null": true} {
				r := httptest.NewRequest("GET", path, nil)
				r = r.WithContext(inprocess.WithUser(r.Context(), masters))
				r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}}
				r.Header.Set("Upgrade", "websocket")
				r.Header.Set("Connection", "Upgrade")
				if origin != "" {
					r.Header.Set("Origin", origin)
				}
				w := httptest.NewRecorder()
				s.handler.ServeHTTP(w, r)
				if refused := w.Code == 403; refused != (checks && foreign) {
					t.Errorf("checking: %t, %s for %q answers %d %s", checks, path, origin, w.Code, w.Body)
				}
			}
		}
	}
}
