package aggregator

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/wire/frontproxy"
)

// Bounds of the lines of a backend.
const (
	// maxLines bounds the lines in use at the same time. Further requests share HTTP/2 connections.
	maxLines = 64
	// maxIdleLines bounds the lines that are kept for an address.
	maxIdleLines = 32
	// lineIdle is how long an idle line is kept: less than the time after which servers close theirs.
	lineIdle = 45 * time.Second
	// lineBuffer is the size of a line's buffers, in bytes.
	lineBuffer = 4 << 10
)

// errNoLine means that a request cannot have a line, and must go over the shared connections.
var errNoLine = errors.New("no line")

// lines are HTTP/1.1 connections to a backend for short requests. A line serves one request at a time, in the goroutine
// of that request. The transports of net/http have two goroutines for a connection, or one for a request, through which
// each request and answer passes; that is half of what a proxied request costs.
type lines struct {
	dial   utilnet.DialFunc
	config *tls.Config
	// certificate returns this server's current certificate; nil: it has none.
	certificate func(*tls.CertificateRequestInfo) (*tls.Certificate, error)
	clock       clock.PassiveClock

	mu   sync.Mutex
	idle map[string][]*line // by address, the last used at the end
	busy int
	// unfit means that the backend does not speak HTTP/1.1, is reached through an HTTP proxy, or that the ends of its
	// connections cannot be seen.
	unfit, closed bool
}

func newLines(s *Server, dial utilnet.DialFunc, config *tls.Config) *lines {
	config = config.Clone()
	config.NextProtos = []string{"http/1.1"}
	config.DynamicRecordSizingDisabled = true // a request is one record
	return &lines{dial: dial, config: config, certificate: s.Certificate, clock: s.Clock, idle: map[string][]*line{}}
}

// line is one connection.
type line struct {
	conn    *tls.Conn
	plain   net.Conn // below conn
	reader  *bufio.Reader
	address string
	// certificate is what this server has authenticated itself with, peer what the extension server has.
	certificate *tls.Certificate
	peer        []*x509.Certificate
	since       time.Time // when it became idle
	kept        bool      // it has served a request before
	out         []byte    // the buffer of requests
	// left is how many bytes of an answer's header may still be read; negative: it is not bounded.
	left int64
	read bool // something of the answer has come
}

// Read reads from the connection, within the bound of headers.
func (l *line) Read(p []byte) (int, error) {
	if l.left == 0 {
		return 0, errHeader
	}
	if l.left > 0 && int64(len(p)) > l.left {
		p = p[:l.left]
	}
	n, err := l.conn.Read(p)
	l.read = l.read || n > 0
	if l.left > 0 {
		l.left -= int64(n)
	}
	return n, err
}

// errHeader means that the header of an answer is too long.
var errHeader = errors.New("the header of the answer is too long")

// fit reports whether requests may have lines now.
func (p *lines) fit() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.unfit && !p.closed && p.busy < maxLines
}

// take returns a line to an address: an idle one, unless fresh, or a new one. give or drop must follow.
func (p *lines) take(ctx context.Context, address string, fresh bool) (*line, error) {
	var current *tls.Certificate
	if p.certificate != nil {
		current, _ = p.certificate(nil) // without one the handshake fails, with the reason
	}
	for {
		l, err := p.next(address, fresh)
		if err != nil || l == nil && !p.reaches(address) {
			return nil, errNoLine
		}
		if l == nil {
			break
		}
		// The extension server looks at the certificate with each request, so an expired one must not stay in use.
		if still, _ := quiet(l.plain); still && l.certificate == current && p.clock.Since(l.since) < lineIdle {
			return l, nil
		}
		p.drop(l)
	}
	l, err := p.connect(ctx, address)
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.busy--
		p.unfit = p.unfit || errors.Is(err, errNoLine)
		return nil, err
	}
	l.certificate = current
	return l, nil
}

// next takes the idle line that was used last, which is the one most likely to be alive; nil means that a new one is
// needed.
func (p *lines) next(address string, fresh bool) (*line, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unfit || p.closed || p.busy >= maxLines {
		return nil, errNoLine
	}
	p.busy++
	all := p.idle[address]
	if fresh || len(all) == 0 {
		return nil, nil
	}
	l := all[len(all)-1]
	all[len(all)-1] = nil
	p.idle[address] = all[:len(all)-1]
	return l, nil
}

// reaches reports whether an address is reached without an HTTP proxy.
func (p *lines) reaches(address string) bool {
	via, err := http.ProxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: "https", Host: address}})
	if err == nil && via == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy--
	p.unfit = true
	return false
}

// connect makes a line.
func (p *lines) connect(ctx context.Context, address string) (*line, error) {
	plain, err := p.dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if _, seen := quiet(plain); !seen {
		_ = plain.Close()
		return nil, errNoLine
	}
	conn := tls.Client(plain, p.config)
	ctx, cancel := context.WithTimeoutCause(ctx, frontproxy.HandshakeTimeout, errHandshake)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = plain.Close()
		switch op := (*net.OpError)(nil); {
		case context.Cause(ctx) == errHandshake:
			err = errHandshake
		case errors.As(err, &op) && op.Op == "remote error" && strings.Contains(op.Err.Error(), "no application protocol"):
			err = errNoLine // it speaks HTTP/2 only
		}
		return nil, err
	}
	l := &line{conn: conn, plain: plain, address: address, peer: conn.ConnectionState().PeerCertificates, out: make([]byte, 0, lineBuffer)}
	l.reader = bufio.NewReaderSize(l, lineBuffer)
	return l, nil
}

// errHandshake has the text of net/http, which is in the conditions of APIServices.
var errHandshake = errors.New("net/http: TLS handshake timeout")

// give keeps a line for the next request.
func (p *lines) give(l *line) {
	l.kept, l.read, l.since = true, false, p.clock.Now()
	if cap(l.out) > 4*lineBuffer {
		l.out = make([]byte, 0, lineBuffer)
	}
	p.mu.Lock()
	p.busy--
	keep := !p.closed && len(p.idle[l.address]) < maxIdleLines
	if keep {
		p.idle[l.address] = append(p.idle[l.address], l)
	}
	p.mu.Unlock()
	if !keep {
		_ = l.plain.Close()
	}
}

// drop closes a line that was taken.
func (p *lines) drop(l *line) {
	p.mu.Lock()
	p.busy--
	p.mu.Unlock()
	_ = l.plain.Close()
}

// prune closes the lines that were idle for too long.
func (p *lines) prune() {
	now := p.clock.Now()
	p.close(func(l *line) bool { return now.Sub(l.since) >= lineIdle })
}

// end closes all idle lines, and the others after their request.
func (p *lines) end() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.close(func(*line) bool { return true })
}

func (p *lines) close(which func(l *line) bool) {
	var gone []*line
	p.mu.Lock()
	for address, all := range p.idle {
		kept := all[:0]
		for _, l := range all {
			if which(l) {
				gone = append(gone, l)
			} else {
				kept = append(kept, l)
			}
		}
		clear(all[len(kept):])
		if p.idle[address] = kept; len(kept) == 0 {
			delete(p.idle, address)
		}
	}
	p.mu.Unlock()
	for _, l := range gone {
		_ = l.plain.Close()
	}
}
