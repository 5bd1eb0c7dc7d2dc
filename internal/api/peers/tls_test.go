package peers

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/kanzen-io/kanzen/internal/wire/frontproxy"
	"github.com/kanzen-io/kanzen/internal/wire/pki/pkitest"
)

// A server is another one of the cluster if one of the authorities of the moment says that it is an API server, wherever it is.
func TestTLS(t *testing.T) {
	t.Parallel()
	pool := func(p *pkitest.Pair) *x509.CertPool {
		pool := x509.NewCertPool()
		pool.AddCert(p.Cert)
		return pool
	}
	right, wrong := pkitest.Server(t, everywhere), pkitest.Server(t, "127.0.0.1")
	own := pkitest.Server(t, "front-proxy").TLS()
	for _, test := range []struct {
		name    string
		serves  *pkitest.Pair
		trusted *x509.CertPool
		ok      bool
	}{
		{"another server", right, pool(right), true},
		{"of another authority", right, pool(wrong), false},
		{"a server of another name, at the right address", wrong, pool(wrong), false},
	} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if len(r.TLS.PeerCertificates) != 1 {
				t.Errorf("%s: %d client certificates", test.name, len(r.TLS.PeerCertificates))
			}
		}))
		s.TLS = &tls.Config{Certificates: []tls.Certificate{test.serves.TLS()}, ClientAuth: tls.RequestClientCert}
		s.StartTLS()
		shared := frontproxy.NewShared(nil, TLS(func() *x509.CertPool { return test.trusted }, func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }))
		req, err := http.NewRequestWithContext(t.Context(), "GET", s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := shared.RoundTrip(req)
		if (err == nil) != test.ok {
			t.Errorf("%s: %v", test.name, err)
		}
		if err == nil {
			_ = resp.Body.Close()
		}
		shared.CloseIdleConnections()
		s.Close()
	}
}
