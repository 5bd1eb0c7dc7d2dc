package upgrade

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

const (
	// maxRefusal bounds the body of a refusal that is passed on.
	maxRefusal = 1 << 20
	// refusalTimeout bounds waiting for it.
	refusalTimeout = 10 * time.Second
)

// Requested reports whether a request asks for another protocol.
func Requested(r *http.Request) bool {
	for _, h := range r.Header["Connection"] {
		if strings.Contains(strings.ToLower(h), "upgrade") {
			return true
		}
	}
	return false
}

// Proxy passes upgrade requests to backends.
type Proxy struct {
	*Dialer
	// Answer bounds waiting for a backend's answer.
	Answer time.Duration
	// BytesPerSecond bounds each direction of a connection; zero does not.
	BytesPerSecond int64
}

// Outgoing returns the request to a backend for one from a client: the same one, for another place.
func Outgoing(r *http.Request, to *url.URL) *http.Request {
	out := r.Clone(r.Context())
	utilnet.AppendForwardedForHeader(out)
	out.URL = to
	return out
}

// Serve sends out, made of r, to its backend and joins the two connections if that switches protocols. A refusal of the
// backend (400 and above) is the answer to the client. An error means that nothing has been answered yet.
func (p *Proxy) Serve(w http.ResponseWriter, r, out *http.Request) error {
	b, err := p.Send(out, p.Answer)
	if err != nil {
		return err
	}
	defer b.Close()
	if !b.Switched() {
		return PassRefusal(w, b)
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return fmt.Errorf("error hijacking connection: %w", err)
	}
	defer conn.Close()
	if err := writeHead(conn, b.Response); err != nil {
		return nil // the client is gone
	}
	if n := buffered.Reader.Buffered(); n > 0 {
		// What the client sent before it had the answer.
		early, _ := buffered.Reader.Peek(n)
		if _, err := b.Write(early); err != nil {
			return nil
		}
	}
	Splice(r.Context(), conn, b, p.BytesPerSecond)
	return nil
}

// writeHead writes the head of a 101.
func writeHead(to io.Writer, resp *http.Response) error {
	var head strings.Builder
	fmt.Fprintf(&head, "HTTP/1.1 %s\r\n", resp.Status)
	_ = resp.Header.Write(&head)
	head.WriteString("\r\n")
	_, err := io.WriteString(to, head.String())
	return err
}

// PassRefusal answers with what a backend answered instead of switching protocols, if that is an error.
func PassRefusal(w http.ResponseWriter, b *Backend) error {
	resp := b.Response
	if resp.StatusCode < http.StatusBadRequest {
		return fmt.Errorf("invalid upgrade response: status code %d", resp.StatusCode)
	}
	_ = b.SetReadDeadline(time.Now().Add(refusalTimeout))
	h := w.Header()
	maps.Copy(h, resp.Header)
	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length"} {
		h.Del(name)
	}
	h.Set("Connection", "close")
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, io.LimitReader(resp.Body, maxRefusal)) // what is missing cannot be told any more
	return nil
}
