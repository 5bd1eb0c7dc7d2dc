package server

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/process/keys"
	"github.com/kanzen-io/kanzen/internal/wire/pki"
)

// metric is the value of the first metric whose line begins so, "" if there is none.
func metric(t *testing.T, s *server, prefix string) string {
	t.Helper()
	for line := range strings.Lines(string(do(t, s, "GET", "/metrics", "", "", nil, 200))) {
		if value, ok := strings.CutPrefix(line, prefix); ok {
			return strings.TrimSpace(value[strings.LastIndexByte(value, ' ')+1:])
		}
	}
	return ""
}

const (
	seatsTaken = `apiserver_flowcontrol_current_executing_seats{flow_schema="service-accounts"`
	aborted    = `apiserver_request_aborts_total{group="",resource="configmaps"`
	watching   = `apiserver_longrunning_requests{component="apiserver",group="",resource="configmaps"`
)

// awaitMetric waits until a metric has a value.
func awaitMetric(t *testing.T, s *server, name, want string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) { // all metrics are written each time
		got := metric(t, s, name)
		if got == want || got == "" && want == "0" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %q, want %s", name, got, want)
		}
	}
}

// writerToken returns the token of a service account that may do what the tests
// need.
func writerToken(t *testing.T, s *server) string {
	t.Helper()
	token := accountToken(t, s)
	const rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/"
	do(t, s, "POST", rbac+"roles", "application/json", "", []byte(`{"metadata":{"name":"all"},"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["*"]}]}`), 201)
	do(t, s, "POST", rbac+"rolebindings", "application/json", "", []byte(`{"metadata":{"name":"all"},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"all"},"subjects":[{"kind":"ServiceAccount","name":"reader","namespace":"default"}]}`), 201)
	return token
}

const configMaps = "/api/v1/namespaces/default/configmaps"

// fill stores more than the buffers of a connection hold.
func fill(t *testing.T, s *server) {
	t.Helper()
	data := strings.Repeat("x", 200<<10)
	for n := range 50 {
		do(t, s, "POST", configMaps, "application/json", "", fmt.Appendf(nil, `{"metadata":{"name":"big%d"},"data":{"x":%q}}`, n, data), 201)
	}
}

// A request that announces a body and does not send it, or does not read its
// answer, has its seat until its deadline and no longer.
func TestHeldRequestsHTTP1(t *testing.T) {
	s := listening(t, func(*config.Config) {})
	token := writerToken(t, s)
	fill(t, s)
	header := " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token + "\r\nContent-Type: application/json\r\n"
	for _, announced := range []string{"Content-Length: 3000000", "Content-Length: 100", "Transfer-Encoding: chunked"} {
		conn := dial(t, s, "http/1.1")
		if _, err := io.WriteString(conn, "POST "+configMaps+"?timeout=150ms"+header+announced+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", announced, err)
		}
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusGatewayTimeout || !strings.Contains(string(body), "request did not complete within the allotted timeout") || !resp.Close {
			t.Errorf("%s: %s %s", announced, resp.Status, body)
		}
		awaitMetric(t, s, seatsTaken, "0")
	}
	var resp *http.Response
	cut := 1
	for timeout := 200 * time.Millisecond; ; timeout *= 2 { // longer if a slow machine has not begun the request by then
		conn := dial(t, s, "http/1.1")
		if _, err := io.WriteString(conn, fmt.Sprintf("GET %s?timeout=%s%s\r\n", configMaps, timeout, header)); err != nil {
			t.Fatal(err)
		}
		var err error
		if resp, err = http.ReadResponse(bufio.NewReader(conn), nil); errors.Is(err, io.ErrUnexpectedEOF) {
			cut++ // before its header was sent
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode == http.StatusOK {
			break
		}
	}
	awaitMetric(t, s, aborted, strconv.Itoa(cut))
	awaitMetric(t, s, seatsTaken, "0")
	if _, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Error("an answer that was cut off looks whole")
	}
	// The connection goes on after a request that came to its end.
	conn := dial(t, s, "http/1.1")
	from := bufio.NewReader(conn)
	for n := range 3 {
		name := fmt.Sprintf("small%d", n)
		object := fmt.Sprintf(`{"metadata":{"name":%q}}`, name)
		if _, err := io.WriteString(conn, "POST "+configMaps+"?timeout=10s"+header+fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(object), object)); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(from, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusCreated {
			t.Errorf("%s, %v", resp.Status, err)
		}
	}
	healthy(t, s)
}

// post opens a stream for a request whose body is not sent yet.
func (f *frames) post(path, length string) (id uint32, err error) {
	f.header.Reset()
	for _, h := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":authority", "x"}, {":path", path},
		{"authorization", "Bearer " + f.token}, {"content-type", "application/json"}, {"content-length", length}} {
		if err := f.encode.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
			return 0, err
		}
	}
	id, f.next = f.next, f.next+2
	return id, f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: f.header.Bytes(), EndHeaders: true})
}

func TestHeldRequestsHTTP2(t *testing.T) {
	s := listening(t, func(*config.Config) {})
	token := writerToken(t, s)
	fill(t, s)
	f := speakHTTP2(t, s)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	f.token = token
	// ended reads until all streams have ended, and counts how.
	ended := func(streams int) map[string]int {
		t.Helper()
		count := map[string]int{}
		for streams > 0 {
			frame, err := f.ReadFrame()
			if err != nil {
				t.Fatalf("%v after %v", err, count)
			}
			switch frame := frame.(type) {
			case *http2.MetaHeadersFrame:
				count[frame.PseudoValue("status")]++
			case *http2.RSTStreamFrame:
				count[frame.ErrCode.String()]++
				streams--
			}
		}
		return count
	}
	for range 20 {
		if _, err := f.post(configMaps+"?timeout=400ms", "3000000"); err != nil {
			t.Fatal(err)
		}
	}
	if got := ended(20); got["504"] != 20 || got["NO_ERROR"] != 20 {
		t.Errorf("%v", got)
	}
	awaitMetric(t, s, seatsTaken, "0")
	// The window of 0 bytes keeps the server from sending data.
	if err := f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
		t.Fatal(err)
	}
	for timeout := 200 * time.Millisecond; ; timeout *= 2 {
		for range 5 {
			if _, err := f.get(fmt.Sprintf("%s?timeout=%s", configMaps, timeout)); err != nil {
				t.Fatal(err)
			}
		}
		got := ended(5)
		if got["200"] == 5 && got["INTERNAL_ERROR"] == 5 {
			break
		}
		if got["INTERNAL_ERROR"] != 5 { // otherwise some began too late, or were cut before their header was sent
			t.Fatalf("%v", got)
		}
	}
	awaitMetric(t, s, seatsTaken, "0")
	healthy(t, s)
}

// A watch whose client does not read ends after the request timeout: if the
// stream's window is full, if the connection is not read at all, and with
// HTTP/1.1.
func TestUnreadWatches(t *testing.T) {
	s := listening(t, func(c *config.Config) { c.RequestTimeout = time.Second })
	token := writerToken(t, s)
	fill(t, s)
	const path = configMaps + "?watch=1"
	silent := speakHTTP2(t, s) // its windows are full after 64 KiB
	silent.token = token
	unread := speakHTTP2(t, s)
	unread.token = token
	if err := unread.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30}); err != nil {
		t.Fatal(err)
	}
	if err := unread.WriteWindowUpdate(0, 1<<30); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*frames{silent, unread} {
		if _, err := f.get(path); err != nil {
			t.Fatal(err)
		}
	}
	conn := dial(t, s, "http/1.1")
	if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+token+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	read := dial(t, s, "http/1.1") // this client reads everything
	if _, err := io.WriteString(read, "GET "+path+" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+token+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, read) }()
	awaitMetric(t, s, watching, "4")
	awaitMetric(t, s, watching, "1")
	awaitMetric(t, s, seatsTaken, "0")
	healthy(t, s)
}

// What is read and written outside of the handler is bounded, too.
func TestServerBounds(t *testing.T) {
	s := listening(t, func(*config.Config) {})
	srv := s.listener
	if srv.ReadTimeout != 65*time.Second || srv.WriteTimeout != 65*time.Second {
		t.Errorf("%s, %s", srv.ReadTimeout, srv.WriteTimeout)
	}
}

func TestHTTP2Streams(t *testing.T) {
	for set, want := range map[int]uint32{0: 100, 7: 7} {
		s := listening(t, func(c *config.Config) { c.HTTP2MaxStreams = set })
		f := speakHTTP2(t, s)
		frame, err := f.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		settings, ok := frame.(*http2.SettingsFrame)
		if !ok {
			t.Fatalf("%v", frame)
		}
		if got, _ := settings.Value(http2.SettingMaxConcurrentStreams); got != want {
			t.Errorf("%d streams, want %d", got, want)
		}
	}
}

func TestCurvePreferences(t *testing.T) {
	for _, c := range []struct {
		numbers []int32
		err     string
	}{
		{nil, ""},
		{[]int32{23, 24, 25, 29, 4588}, ""},
		{[]int32{23, 29, 23}, "duplicate curve preference 23"},
		{[]int32{0}, "curve preference 0 is out of range (must be 1-65535)"},
		{[]int32{-1}, "curve preference -1 is out of range (must be 1-65535)"},
		{[]int32{70000}, "curve preference 70000 is out of range (must be 1-65535)"},
		{[]int32{9999}, "curve preference 9999 is not supported by the current Go version"},
	} {
		got, err := config.CurvePreferences(c.numbers)
		if c.err == "" && (err != nil || len(got) != len(c.numbers)) || c.err != "" && (err == nil || err.Error() != c.err) {
			t.Errorf("%v: %v, %v", c.numbers, got, err)
		}
	}
	s := listening(t, func(c *config.Config) { c.TLSCurvePreferences = []int32{24} })
	for id, ok := range map[tls.CurveID]bool{tls.CurveP384: true, tls.X25519: false} {
		conn, err := tls.Dial("tcp", s.listener.Address(), &tls.Config{InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{id}})
		if (err == nil) != ok {
			t.Errorf("%v: %v", id, err)
		}
		if err == nil {
			_ = conn.Close()
		}
	}
	if _, _, err := (&config.Config{Process: config.Process{TLSCurvePreferences: []int32{1}}}).Validate(); err == nil || !strings.Contains(err.Error(), "--tls-curve-preferences: curve preference 1 is not supported") {
		t.Error(err)
	}
}

// acceptable returns the authorities of client certificates that the server
// names in a handshake; nil: it asks for no certificate.
func acceptable(t *testing.T, s *server) []string {
	t.Helper()
	var names []string
	conn, err := tls.Dial("tcp", s.listener.Address(), &tls.Config{InsecureSkipVerify: true,
		GetClientCertificate: func(r *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			names = []string{}
			for _, subject := range r.AcceptableCAs {
				names = append(names, string(subject))
			}
			return &tls.Certificate{}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Handshake(); err != nil {
		t.Fatal(err)
	}
	return names
}

// Clients that have several certificates choose by the authorities that a
// server names. Those follow the files.
func TestHandshakeNamesAuthorities(t *testing.T) {
	clients, proxies := newTestAuthority(t, "clients"), newTestAuthority(t, "proxies")
	s := listening(t, func(c *config.Config) { c.ClientCAFile, c.RequestHeaderCAFile = clients.file, proxies.file })
	subject := func(a *authority) string { return string(a.Cert.RawSubject) }
	if got := acceptable(t, s); !slices.Equal(got, []string{subject(clients), subject(proxies)}) {
		t.Errorf("%q", got)
	}
	if got := acceptable(t, listening(t, func(*config.Config) {})); len(got) != 2 {
		t.Errorf("a server's own authorities: %q", got)
	}

	clk := clocktesting.NewFakePassiveClock(time.Now())
	k := &keys.Keys{}
	var err error
	if k.RequestHeaderCA, err = pki.NewBundleFile(proxies.file, clk, s.base.log); err != nil {
		t.Fatal(err)
	}
	config := k.NameAuthorities(&tls.Config{NextProtos: []string{"h2"}})
	before, _ := config(nil)
	if again, _ := config(nil); again != before {
		t.Error("it is made anew for each connection")
	}
	if err := os.WriteFile(proxies.file, slices.Concat(clients.PEM(), proxies.PEM()), 0o600); err != nil {
		t.Fatal(err)
	}
	clk.SetTime(clk.Now().Add(time.Minute))
	want := x509.NewCertPool()
	want.AddCert(proxies.Cert)
	want.AddCert(clients.Cert)
	if after, _ := config(nil); !after.ClientCAs.Equal(want) || after.NextProtos == nil {
		t.Error("the authorities of before")
	}
}
