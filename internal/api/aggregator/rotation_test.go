package aggregator

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/wire/frontproxy"
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
	shared := frontproxy.NewShared(nil, config)
	defer shared.CloseIdleConnections()
	all := newLines(&Server{Config: Config{Certificate: current, Clock: clock.RealClock{}}}, new(net.Dialer).DialContext, config)
	defer all.end()
	overLine := func() *line {
		l, err := all.take(t.Context(), s.Listener.Addr().String(), false)
		if err != nil {
			t.Fatal(err)
		}
		all.give(l)
		return l
	}
	overShared := func() string {
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
	first := overLine()
	if overLine() != first || overShared() != "first" {
		t.Error("connections are not kept")
	}
	use("second")
	if overLine() == first {
		t.Error("a line of the first certificate is used")
	}
	if got := overShared(); got != "second" {
		t.Errorf("requests come with the certificate %q", got)
	}
}

// Idle lines are closed in time, and all of them at the end.
func TestLinesAreClosed(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
	all := newLines(&Server{Config: Config{Clock: clk}}, new(net.Dialer).DialContext, &tls.Config{InsecureSkipVerify: true})
	address := s.Listener.Addr().String()
	taken := func() *line {
		l, err := all.take(context.Background(), address, false)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	one, two := taken(), taken()
	all.give(one)
	clk.Step(lineIdle / 2)
	all.give(two)
	clk.Step(lineIdle / 2)
	all.prune()
	if left := all.idle[address]; len(left) != 1 || left[0] != two {
		t.Errorf("%d are left", len(left))
	}
	busy := taken()
	all.end()
	all.give(busy)
	if len(all.idle) != 0 || all.busy != 0 {
		t.Errorf("idle %v, busy %d", all.idle, all.busy)
	}
	if _, err := all.take(t.Context(), address, false); err == nil {
		t.Error("a line after the end")
	}
}
