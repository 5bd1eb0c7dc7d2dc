package egress_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/utils/clock"
	konn "sigs.k8s.io/apiserver-network-proxy/konnectivity-client/proto/client"

	"github.com/kanzen-io/kanzen/internal/wire/egress"
	"github.com/kanzen-io/kanzen/internal/wire/egress/egresstest"
)

// to returns the dialer through a proxy, and its metrics.
func to(t *testing.T, connection string) (utilnet.DialFunc, *prometheus.Registry) {
	t.Helper()
	r := prometheus.NewRegistry()
	s, err := egress.Load(egresstest.Write(t, map[string]string{"cluster": connection}), r, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	return s.Dial(egress.Cluster), r
}

// echo sends back what it receives, after a greeting.
func echo(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.WriteString(c, "hello")
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	return l.Addr().String()
}

// exchange sends a megabyte in each direction.
func exchange(t *testing.T, c net.Conn) {
	t.Helper()
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	go func() { _, _ = c.Write(sent) }()
	got := make([]byte, len("hello")+len(sent))
	if _, err := io.ReadFull(c, got); err != nil || string(got[:5]) != "hello" || !bytes.Equal(got[5:], sent) {
		t.Errorf("what came back differs: %v", err)
	}
}

var proxies = map[string]struct {
	serve  func(t testing.TB, to string) *egresstest.Proxy
	labels string
}{
	"TLS":          {egresstest.OverTLS, `protocol="http_connect",transport="tcp"`},
	"TCP":          {egresstest.OverTCP, `protocol="http_connect",transport="tcp"`},
	"Unix":         {egresstest.OverUnix, `protocol="http_connect",transport="uds"`},
	"konnectivity": {egresstest.Konnectivity, `protocol="grpc",transport="uds"`},
}

func TestProxies(t *testing.T) {
	server := echo(t)
	for name, c := range proxies {
		t.Run(name, func(t *testing.T) {
			p := c.serve(t, server)
			dial, metrics := to(t, p.Connection)
			// The end of the dial context does not close the connection.
			ctx, cancel := context.WithCancel(t.Context())
			conn, err := dial(ctx, "tcp", "nosuch.invalid:443")
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			exchange(t, conn)
			if conn.LocalAddr() == nil || conn.RemoteAddr() == nil {
				t.Error("no addresses")
			}
			if err := conn.SetReadDeadline(time.Now()); err != nil {
				t.Error(err)
			}
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("after the deadline: %v", err)
			}
			if asked := p.Asked(); len(asked) != 1 || asked[0] != "nosuch.invalid:443" {
				t.Errorf("asked for %v", asked)
			}
			if err := testutil.GatherAndCompare(metrics, strings.NewReader(fmt.Sprintf(`# HELP apiserver_egress_dialer_dial_start_total Dial starts, labeled by the protocol (http-connect or grpc) and transport (tcp or uds).
# TYPE apiserver_egress_dialer_dial_start_total counter
apiserver_egress_dialer_dial_start_total{%s} 1
`, c.labels)), "apiserver_egress_dialer_dial_start_total", "apiserver_egress_dialer_dial_failure_count"); err != nil {
				t.Error(err)
			}
			if n, err := testutil.GatherAndCount(metrics, "apiserver_egress_dialer_dial_duration_seconds"); n != 1 || err != nil {
				t.Errorf("%d durations, %v", n, err)
			}
		})
	}
}

// If the destination closes, the data it sent is still read.
func TestOtherEndCloses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "bye")
			_ = c.Close()
		}
	}()
	for name, c := range proxies {
		p := c.serve(t, "")
		dial, _ := to(t, p.Connection)
		conn, err := dial(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(conn); string(got) != "bye" || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		_ = conn.Close()
	}
}

// Closing here closes the destination's side.
func TestClose(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, c := range proxies {
		p := c.serve(t, "")
		dial, _ := to(t, p.Connection)
		conn, err := dial(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		there, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "bye"); err != nil {
			t.Error(err)
		}
		if err := conn.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, err := io.ReadAll(there); string(got) != "bye" || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		_ = there.Close()
	}
}

// badProxy sends a response on each connection to its socket, and with hang keeps it open until the other side closes.
func badProxy(t *testing.T, hang bool, answer func(c net.Conn)) string {
	t.Helper()
	l, socket := egresstest.Listen(t)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = c.Read(make([]byte, 4096))
				answer(c)
				if hang {
					_, _ = io.Copy(io.Discard, c)
				}
				_ = c.Close()
			}()
		}
	}()
	return socket
}

// endless writes text until the connection is closed.
func endless(begin, more string) func(net.Conn) {
	return func(c net.Conn) {
		for _, err := io.WriteString(c, begin); err == nil; {
			_, err = io.WriteString(c, more)
		}
	}
}

func TestFailures(t *testing.T) {
	says := func(text string) func(net.Conn) {
		return func(c net.Conn) { _, _ = io.WriteString(c, text) }
	}
	const via = "reading HTTP response from CONNECT to nosuch.invalid:443 via proxy "
	for _, c := range []struct {
		name   string
		answer func(c net.Conn)
		hangs  bool // the client gives up after the response
		want   string
	}{
		{"refuses", says("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"), false, "while dialing nosuch.invalid:443, code 403: 403 Forbidden"},
		{"refuses at length", says("HTTP/1.1 403 " + strings.Repeat("x", 1<<19) + "\r\n\r\n"), false, "code 403: 403 xxx"},
		{"dies", says(""), false, via},
		{"dies in between", says("HTTP/1.1 200 OK\r\nX: "), false, "unexpected EOF"},
		{"speaks garbage", says("\x16\x03\x01 what?\r\n\r\n"), false, "malformed HTTP"},
		{"header without end", endless("HTTP/1.1 200 OK\r\n", "X: "+strings.Repeat("x", 1<<12)+"\r\n"), false, via},
		{"line without end", endless("HTTP/1.1 ", strings.Repeat("x", 1<<12)), false, via},
		{"hangs", says(""), true, "context canceled"},
		{"hangs in between", says("HTTP/1.1 200 OK\r\n"), true, "context canceled"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			socket := badProxy(t, c.hangs, func(conn net.Conn) {
				c.answer(conn)
				if c.hangs {
					giveUp()
				}
			})
			dial, metrics := to(t, fmt.Sprintf("{proxyProtocol: HTTPConnect, transport: {uds: {udsName: %s}}}", socket))
			conn, err := dial(ctx, "tcp", "nosuch.invalid:443")
			if conn != nil || err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 600 {
				t.Errorf("%v, %.600v", conn, err)
			}
			failed(t, metrics, `protocol="http_connect",stage="proxy",transport="uds"`)
		})
	}
}

// failed checks that one failure was counted, and no duration.
func failed(t *testing.T, metrics *prometheus.Registry, labels string) {
	t.Helper()
	if err := testutil.GatherAndCompare(metrics, strings.NewReader(fmt.Sprintf(`# HELP apiserver_egress_dialer_dial_failure_count Dial failure count, labeled by the protocol (http-connect or grpc), transport (tcp or uds), and stage (connect or proxy). The stage indicates at which stage the dial failed
# TYPE apiserver_egress_dialer_dial_failure_count counter
apiserver_egress_dialer_dial_failure_count{%s} 1
`, labels)), "apiserver_egress_dialer_dial_failure_count", "apiserver_egress_dialer_dial_duration_seconds"); err != nil {
		t.Error(err)
	}
}

func TestNoProxy(t *testing.T) {
	for connection, labels := range map[string]string{
		"{proxyProtocol: HTTPConnect, transport: {uds: {udsName: /nowhere}}}": `protocol="http_connect",stage="connect",transport="uds"`,
		"{proxyProtocol: GRPC, transport: {uds: {udsName: /nowhere}}}":        `protocol="grpc",stage="connect",transport="uds"`,
	} {
		dial, metrics := to(t, connection)
		if _, err := dial(t.Context(), "tcp", "nosuch.invalid:443"); err == nil || !strings.Contains(err.Error(), "/nowhere") {
			t.Errorf("%s: %v", connection, err)
		}
		failed(t, metrics, labels)
	}
}

// The proxy requires a client certificate, and the dialer has a wrong one.
func TestWrongCertificate(t *testing.T) {
	mine, other := egresstest.OverTLS(t, ""), egresstest.OverTLS(t, "")
	for what, connection := range map[string]string{
		"server": mine.ConnectionWith(other, mine),
		"client": mine.ConnectionWith(mine, other),
	} {
		dial, metrics := to(t, connection)
		if _, err := dial(t.Context(), "tcp", "nosuch.invalid:443"); err == nil {
			t.Errorf("%s's certificate: no error", what)
		}
		if n, err := testutil.GatherAndCount(metrics, "apiserver_egress_dialer_dial_failure_count"); n != 1 || err != nil {
			t.Errorf("%s's certificate: %d failures, %v", what, n, err)
		}
	}
	if n := len(mine.Asked()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// silent is a misbehaving konnectivity server.
type silent struct {
	konn.UnimplementedProxyServiceServer
	serve func(stream konn.ProxyService_ProxyServer, dial *konn.DialRequest) error
}

func (s silent) Proxy(stream konn.ProxyService_ProxyServer) error {
	p, err := stream.Recv()
	if err != nil {
		return err
	}
	return s.serve(stream, p.GetDialRequest())
}

func TestKonnectivityFailures(t *testing.T) {
	answer := func(p *konn.Packet) func(konn.ProxyService_ProxyServer, *konn.DialRequest) error {
		return func(s konn.ProxyService_ProxyServer, d *konn.DialRequest) error {
			if r := p.GetDialResponse(); r != nil {
				r.Random += d.Random
			}
			if r := p.GetCloseDial(); r != nil {
				r.Random += d.Random
			}
			return s.Send(p)
		}
	}
	response := func(r *konn.DialResponse) *konn.Packet {
		return &konn.Packet{Type: konn.PacketType_DIAL_RSP, Payload: &konn.Packet_DialResponse{DialResponse: r}}
	}
	for _, c := range []struct {
		name  string
		serve func(konn.ProxyService_ProxyServer, *konn.DialRequest) error
		hangs bool
		want  string
	}{
		{"refuses", answer(response(&konn.DialResponse{Error: "no agent"})), false, "dialing nosuch.invalid:443 via konnectivity server: no agent"},
		{"closes", answer(&konn.Packet{Type: konn.PacketType_DIAL_CLS, Payload: &konn.Packet_CloseDial{CloseDial: &konn.CloseDial{}}}), false, "dial closed"},
		{"answers another", answer(response(&konn.DialResponse{Random: 1, ConnectID: 1})), false, "EOF"},
		{"empty answers", answer(&konn.Packet{Type: konn.PacketType_DIAL_RSP}), false, "EOF"},
		{"dies", func(konn.ProxyService_ProxyServer, *konn.DialRequest) error { return io.ErrUnexpectedEOF }, false, "unexpected EOF"},
		{"hangs", func(s konn.ProxyService_ProxyServer, _ *konn.DialRequest) error {
			<-s.Context().Done()
			return nil
		}, true, "context canceled"},
	} {
		ctx, giveUp := context.WithCancel(t.Context())
		dial, metrics := to(t, egresstest.ServeGRPC(t, silent{serve: func(s konn.ProxyService_ProxyServer, d *konn.DialRequest) error {
			if c.hangs {
				giveUp()
			}
			return c.serve(s, d)
		}}))
		conn, err := dial(ctx, "tcp", "nosuch.invalid:443")
		if conn != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v", c.name, conn, err)
		}
		failed(t, metrics, `protocol="grpc",stage="proxy",transport="uds"`)
		giveUp()
	}
}

// The end of the context also cancels a dial through a socket whose server hangs or sends garbage.
func TestNoKonnectivityServer(t *testing.T) {
	ctx, giveUp := context.WithCancel(t.Context())
	socket := badProxy(t, true, func(net.Conn) { giveUp() })
	dial, metrics := to(t, fmt.Sprintf("{proxyProtocol: GRPC, transport: {uds: {udsName: %s}}}", socket))
	if _, err := dial(ctx, "tcp", "nosuch.invalid:443"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	failed(t, metrics, `protocol="grpc",stage="connect",transport="uds"`)
	socket = badProxy(t, false, func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") })
	dial, metrics = to(t, fmt.Sprintf("{proxyProtocol: GRPC, transport: {uds: {udsName: %s}}}", socket))
	if _, err := dial(t.Context(), "tcp", "nosuch.invalid:443"); err == nil {
		t.Error("garbage, and no error")
	}
	failed(t, metrics, `protocol="grpc",stage="connect",transport="uds"`)
}

// A konnectivity server that neither reads nor closes does not block a dial.
func TestKonnectivityServerHangs(t *testing.T) {
	dial, _ := to(t, egresstest.ServeGRPC(t, silent{serve: func(s konn.ProxyService_ProxyServer, d *konn.DialRequest) error {
		if err := s.Send(&konn.Packet{Type: konn.PacketType_DIAL_RSP, Payload: &konn.Packet_DialResponse{DialResponse: &konn.DialResponse{Random: d.Random, ConnectID: 1}}}); err != nil {
			return err
		}
		<-s.Context().Done()
		return nil
	}}))
	conn, err := dial(t.Context(), "tcp", "nosuch.invalid:443")
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(conn, rand.Reader); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}
