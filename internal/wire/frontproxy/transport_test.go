package frontproxy

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/kanzen-io/kanzen/internal/wire/pki/pkitest"
)

// Connections that were opened with an earlier certificate of this server are not used any more once it has another.
func TestCertificateRotates(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.StartTLS()
	defer s.Close()
	var now atomic.Pointer[tls.Certificate]
	use := func(name string) {
		pair := pkitest.Server(t, name).TLS()
		now.Store(&pair)
	}
	current := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return now.Load(), nil }
	use("first")
	config := &tls.Config{InsecureSkipVerify: true, GetClientCertificate: current}
	shared := NewShared(nil, config)
	defer shared.CloseIdleConnections()
	asked := func() string {
		req, err := http.NewRequestWithContext(t.Context(), "GET", s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := shared.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return string(body)
	}
	if got := asked(); got != "first" {
		t.Errorf("the first request comes with the certificate %q", got)
	}
	use("second")
	if got := asked(); got != "second" {
		t.Errorf("a request after the change comes with the certificate %q", got)
	}
}
