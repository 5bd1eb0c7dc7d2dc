package owners

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/wire/frontproxy"
)

// This file has the connections between servers. Each shows the other a certificate that the log has of it.

// hostName is the name that servers send each other in TLS, so that the other shows the certificate for them.
const hostName = "planes.kanzen.internal"

// What a server says of a request that it passes on. Headers of these names that clients send are not believed.
const (
	clientAddress      = "Kanzen-Client-Address"
	clientServerName   = "Kanzen-Client-Server-Name"
	clientCertificates = "Kanzen-Client-Certificates" // each in DER and base64
	clientUser         = "Kanzen-Client-User"         // in JSON: who asks, whatever the credentials
	passed             = "Kanzen-Passed"              // by how many servers
)

// maxPassed is by how many servers a request is passed on: two may have it on their way while a plane moves.
const maxPassed = 3

// peer is a server and the connections to it.
type peer struct {
	*Server
	shared *frontproxy.Shared
	config *tls.Config
	owners *Owners
	// Of the log, as of a revision; guarded by mu of owners.
	leaving bool
	seen    int64
	heard   time.Time // when this server learned last that it runs
}

// peer makes the connections to a server. None is opened before it is used.
func (o *Owners) peer(s *Server) *peer {
	roots := x509.NewCertPool()
	if cert, err := x509.ParseCertificate(s.Certificate); err == nil { // otherwise none is right
		roots.AddCert(cert)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: hostName, Time: o.Clock.Now,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &o.pair, nil }}
	return &peer{Server: s, config: config, owners: o, shared: frontproxy.NewShared(o.Dial, config)}
}

func (p *peer) close() { p.shared.CloseIdleConnections() }

// RoundTrip is part of http.RoundTripper: it sends a request to the server.
func (p *peer) RoundTrip(r *http.Request) (*http.Response, error) {
	if frontproxy.Upgrade(r.Header) != "" {
		return frontproxy.NewUpgrade(p.owners.Dial, p.config).RoundTrip(r)
	}
	return p.shared.RoundTrip(r)
}

// find returns the connections to a server that runs.
func (o *Owners) find(s *Server) (*peer, error) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if p := o.servers[s.id()]; p != nil {
		return p, nil
	}
	return nil, errGone
}

var errGone = errors.New("the server is gone")

// Certificate returns what this server shows to another; nil: the client is none.
func (o *Owners) Certificate(hello *tls.ClientHelloInfo) *tls.Certificate {
	if hello.ServerName == hostName {
		return &o.pair
	}
	return nil
}

// Pass passes a request for a plane on to a server, of a user if another server has said who asks; nil: the credentials say it. fail is
// called if the server does not answer. The answer may last until the context of the request ends.
func (o *Owners) Pass(w http.ResponseWriter, r *http.Request, u user.Info, to *Server, fail func(error)) {
	p, err := o.find(to)
	n := 1
	if before, ok := r.Context().Value(passedKey{}).(int); ok {
		n += before
	}
	if err == nil && n > maxPassed {
		err = errors.New("the servers do not agree on which of them has the control plane")
	}
	if err != nil {
		fail(err)
		return
	}
	(&httputil.ReverseProxy{
		Transport: p,
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL = &url.URL{Scheme: "https", Host: to.Name, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
			pr.Out.Host = r.Host
			for _, name := range [...]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} { // ReverseProxy leaves them out
				if values := r.Header[name]; values != nil {
					pr.Out.Header[name] = values
				}
			}
			if _, ok := r.Header["User-Agent"]; !ok {
				pr.Out.Header["User-Agent"] = []string{""} // and not that of net/http
			}
			describe(r, u, pr.Out.Header, n)
		},
		ModifyResponse: func(resp *http.Response) error {
			if resp.StatusCode == http.StatusUnauthorized { // as the other would do it with a client of its own
				resp.Header.Set("Connection", "close")
				w.Header().Set("Connection", "close")
			}
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) { fail(err) },
		BufferPool:   &o.buffers,
		ErrorLog:     o.errorLog,
	}).ServeHTTP(w, r)
}

// buffers are those through which answers are copied.
type buffers struct{ pool sync.Pool }

// Get is part of httputil.BufferPool.
func (b *buffers) Get() []byte {
	if buf, ok := b.pool.Get().(*[]byte); ok {
		return *buf
	}
	return make([]byte, 32<<10)
}

// Put is part of httputil.BufferPool.
func (b *buffers) Put(buf []byte) { b.pool.Put(&buf) }

// between are the headers of requests between servers.
var between = [...]string{clientAddress, clientServerName, clientCertificates, clientUser, passed}

// describe says in a header what the other server cannot see of the client, and who asks if that is known.
func describe(r *http.Request, u user.Info, h http.Header, n int) {
	for _, name := range between {
		h.Del(name)
	}
	h.Set(clientAddress, r.RemoteAddr)
	h.Set(passed, strconv.Itoa(n))
	if u != nil {
		who, _ := json.Marshal(user.DefaultInfo{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: u.GetExtra()}) // texts alone
		h.Set(clientUser, string(who))
	}
	if r.TLS == nil {
		return
	}
	if r.TLS.ServerName != "" {
		h.Set(clientServerName, r.TLS.ServerName)
	}
	for _, cert := range r.TLS.PeerCertificates {
		h.Add(clientCertificates, base64.StdEncoding.EncodeToString(cert.Raw))
	}
}

type passedKey struct{}

// Between reports whether a request comes over a connection of a server.
func Between(r *http.Request) bool { return r.TLS != nil && r.TLS.ServerName == hostName }

// Received returns a request that another server has passed on (Between) as its client has sent it, and the user in whose name it is made;
// nil: its credentials say that. An error says that no server has passed it on.
func (o *Owners) Received(r *http.Request) (*http.Request, user.Info, error) {
	if len(r.TLS.PeerCertificates) == 0 || !o.runs(r.Context(), r.TLS.PeerCertificates[0].Raw) {
		return nil, nil, errors.New("the connection is for servers of planes")
	}
	said := r.Header
	n, err := strconv.Atoi(said.Get(passed))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", passed, err)
	}
	out := r.WithContext(context.WithValue(r.Context(), passedKey{}, n))
	out.RemoteAddr = said.Get(clientAddress)
	state := *r.TLS
	state.ServerName, state.PeerCertificates, state.VerifiedChains = said.Get(clientServerName), nil, nil
	for _, text := range said[clientCertificates] {
		der, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", clientCertificates, err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", clientCertificates, err)
		}
		state.PeerCertificates = append(state.PeerCertificates, cert)
	}
	out.TLS = &state
	var who user.Info
	if text := said.Get(clientUser); text != "" {
		u := new(user.DefaultInfo)
		if err := json.Unmarshal([]byte(text), u); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", clientUser, err)
		}
		who = u
	}
	out.Header = said.Clone()
	for _, name := range between {
		out.Header.Del(name)
	}
	return out, who, nil
}

// Ask asks another server for something that is for servers alone (Asked). The caller closes the body of the answer.
func (o *Owners) Ask(ctx context.Context, to *Server, path string) (*http.Response, error) {
	p, err := o.find(to)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, (&url.URL{Scheme: "https", Host: to.Name, Path: path}).String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set(passed, asked)
	return p.RoundTrip(r)
}

// asked is what a server says in place of how often a request was passed on if it is its own. A request that is passed on never has it.
const asked = "0"

// Asked reports whether a request (Received) is one by which another server asks this one for itself (Ask).
func Asked(r *http.Request) bool {
	n, ok := r.Context().Value(passedKey{}).(int)
	return ok && n == 0
}

// runs reports whether a certificate is that of a server that runs. One that has just started may not be known yet.
func (o *Owners) runs(ctx context.Context, certificate []byte) bool {
	known := func() bool {
		o.mu.RLock()
		defer o.mu.RUnlock()
		for _, p := range o.servers {
			if bytes.Equal(p.Certificate, certificate) {
				return true
			}
		}
		return false
	}
	if known() {
		return true
	}
	o.mu.Lock()
	often := o.Clock.Since(o.asked) < renewal/10
	if !often {
		o.asked = o.Clock.Now()
	}
	o.mu.Unlock()
	if often {
		return false
	}
	_, err := o.DB.Range(ctx, kv.Range{Key: serversPrefix, End: kv.PrefixEnd(serversPrefix)}, func(k kv.KeyValue) bool {
		o.learn(&kv.Event{KeyValue: k})
		return true
	})
	return err == nil && known()
}

// Transport returns a transport for requests of a user to a plane that a server has; below is where the plane is on it.
func (o *Owners) Transport(to *Server, below string, u user.Info) http.RoundTripper {
	return &named{o, to, below, u}
}

type named struct {
	owners *Owners
	to     *Server
	below  string
	user   user.Info
}

// RoundTrip is part of http.RoundTripper.
func (t *named) RoundTrip(r *http.Request) (*http.Response, error) {
	p, err := t.owners.find(t.to)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.URL.Path = "https", t.to.Name, t.below+r.URL.Path
	if r.URL.RawPath != "" {
		out.URL.RawPath = t.below + r.URL.RawPath
	}
	describe(r, t.user, out.Header, 1)
	return p.RoundTrip(out)
}
