package frontproxy

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"

	"k8s.io/apiserver/pkg/authentication/user"
)

// Forward passes one request on, and its answer back. All fields but Header, Check and Buffers are required.
type Forward struct {
	// Address is the other server's: host and port.
	Address string
	User    user.Info
	// Transport has its connections: of NewUpgrade if the request wants to change its protocol, else of NewShared.
	Transport http.RoundTripper
	// Header is what this server says beside what is always said.
	Header http.Header
	// Check refuses answers by an error, and changes others.
	Check func(*http.Response) error
	// Fail answers a request that the other server did not.
	Fail     func(w http.ResponseWriter, r *http.Request, err error)
	Buffers  httputil.BufferPool
	ErrorLog *log.Logger

	upgrades bool // the request wants to change its protocol
	// cut is the error that ended the answer's body before its end; nil: none did.
	cut error
}

// Serve passes the request on.
func (f *Forward) Serve(w http.ResponseWriter, r *http.Request) {
	f.upgrades = Upgrade(r.Header) != ""
	(&httputil.ReverseProxy{
		Rewrite: f.rewrite, Transport: f.Transport, ModifyResponse: f.modify, ErrorHandler: f.Fail,
		// Without a FlushInterval: answers of unknown length, such as watches, are sent on at once, others need no flush.
		BufferPool: f.Buffers, ErrorLog: f.ErrorLog,
	}).ServeHTTP(w, r)
	if f.cut != nil {
		panic(http.ErrAbortHandler) // what there is of the answer must not be taken for all of it
	}
}

// rewrite makes the other server's request.
func (f *Forward) rewrite(p *httputil.ProxyRequest) {
	in, out := p.In, p.Out
	h := http.Header{}
	if te := out.Header["Te"]; te != nil {
		h["Te"] = te
	}
	if f.upgrades {
		h["Connection"], h["Upgrade"] = out.Header["Connection"], out.Header["Upgrade"]
	}
	out.URL, out.Host, out.Header = target(in, f.Address), f.Address, h
	headers(in, f.User, f.Address, out.URL.EscapedPath(), h.Add)
	for name, values := range f.Header {
		h[name] = values
	}
}

// modify prepares an answer for httputil.ReverseProxy.
func (f *Forward) modify(resp *http.Response) error {
	if err := check(resp, f.upgrades); err != nil {
		return err
	}
	if f.Check != nil {
		if err := f.Check(resp); err != nil {
			return err
		}
	}
	if resp.StatusCode != http.StatusSwitchingProtocols { // whose body is the connection
		resp.Body = &body{ReadCloser: resp.Body, cut: &f.cut}
	}
	return nil
}

// check refuses an answer that must not be passed on, and removes from others what only this server says: which scripts may
// read it.
func check(resp *http.Response, upgrade bool) error {
	for _, name := range [...]string{"Access-Control-Allow-Credentials", "Access-Control-Allow-Headers", "Access-Control-Allow-Methods", "Access-Control-Allow-Origin"} {
		resp.Header.Del(name)
	}
	if code := resp.StatusCode; upgrade && code != http.StatusSwitchingProtocols && code < 400 {
		return Refused(fmt.Sprintf("invalid upgrade response: status code %d", code))
	}
	return nil
}

// Refused is an answer that is not passed on.
type Refused string

// Error is part of error.
func (r Refused) Error() string { return string(r) }

// body records the error that ends a body too early.
type body struct {
	io.ReadCloser
	cut *error
}

// Read is part of io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		*b.cut = err
	}
	return n, err
}
