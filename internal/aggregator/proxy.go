package aggregator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/route"
)

// copySize is the size of the pieces in which bodies are passed on, in bytes.
const copySize = 32 << 10

// discoveryTimeout bounds a client's request for the discovery document of a group and version.
const discoveryTimeout = 5 * time.Second

// ServeHTTP passes a request on to the extension server. The request has been authenticated and authorized.
func (c *claim) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := c.service.Load()
	if !clean(r.URL.Path) {
		route.NotFound(w)
		return
	}
	if !v.isAvailable() {
		c.server.WriteError(w, r, v.unavailable())
		return
	}
	if err := v.backend.broken; err != nil {
		c.server.WriteError(w, r, apierrors.NewInternalError(err))
		return
	}
	ctx := r.Context()
	u := request.UserFrom(ctx)
	if u == nil {
		c.server.WriteError(w, r, apierrors.NewInternalError(errors.New("missing user")))
		return
	}
	address, err := v.backend.address(ctx)
	if err != nil {
		c.server.Log.Debug("an extension server has no address", "name", v.name, "error", err)
		c.server.WriteError(w, r, unavailable("service unavailable: "+err.Error()))
		return
	}
	if i := request.InfoFrom(ctx); i != nil && !i.IsResource {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, discoveryTimeout)
		defer cancel()
		r = r.WithContext(ctx)
	}
	if upgradeOf(r.Header) != "" {
		stream, leave := newStream(ctx, w, c.server.Ending)
		defer leave()
		r = r.WithContext(stream)
	}
	// Flow control gets its seats back: the extension server has its own.
	request.Watching(ctx)
	forward := &forward{server: c.server, service: v, address: address, user: u}
	forward.serve(w, r)
}

// clean reports whether a path has the same meaning for everybody. The extension server must not resolve a path to another
// one than the user was authorized for.
func clean(path string) bool {
	for segment := range strings.SplitSeq(strings.TrimSuffix(strings.TrimPrefix(path, "/"), "/"), "/") {
		if segment == "" || segment == "." || segment == ".." {
			return false
		}
	}
	return true
}

// unavailable returns the error for requests while the APIService is not available, with the reason.
func (v *service) unavailable() error {
	if v.available.Reason == "" {
		return unavailable("service unavailable")
	}
	return unavailable(fmt.Sprintf("service unavailable: %s: %s", v.available.Reason, v.available.Message))
}

func unavailable(message string) error { return apierrors.NewServiceUnavailable(message) }

// forward passes one request on.
type forward struct {
	server  *Server
	service *service
	address string
	user    user.Info
	// upgrades: the request wants to take over the connection.
	upgrades bool
	// body is what was read of the request's body, which is all of it; nil: nothing was.
	body []byte
	// cut is the error that ended the answer's body before its end; nil: none did.
	cut error
}

func (f *forward) serve(w http.ResponseWriter, r *http.Request) {
	backend := f.service.backend
	transport := backend.shared
	if f.upgrades = upgradeOf(r.Header) != ""; f.upgrades {
		transport = backend.upgrade
	} else if short(r) && backend.lines.fit() && f.exchange(w, r) {
		return
	}
	(&httputil.ReverseProxy{
		Rewrite: f.rewrite, Transport: transport, ModifyResponse: f.modify, ErrorHandler: f.fail,
		// Without a FlushInterval: answers of unknown length, such as watches, are sent on at once, others need no flush.
		BufferPool: buffers{r.Context(), f.server}, ErrorLog: f.server.silent,
	}).ServeHTTP(w, r)
	if f.cut != nil {
		panic(http.ErrAbortHandler) // what there is of the answer must not be taken for all of it
	}
}

// rewrite makes the extension server's request.
func (f *forward) rewrite(p *httputil.ProxyRequest) {
	in, out := p.In, p.Out
	h := http.Header{}
	if te := out.Header["Te"]; te != nil {
		h["Te"] = te
	}
	if f.upgrades {
		h["Connection"], h["Upgrade"] = out.Header["Connection"], out.Header["Upgrade"]
	}
	out.URL, out.Host, out.Header = f.target(in), f.address, h
	f.headers(in, out.URL.EscapedPath(), h.Add)
	if len(f.body) > 0 {
		out.Body = io.NopCloser(bytes.NewReader(f.body))
	}
}

// modify prepares an answer for httputil.ReverseProxy.
func (f *forward) modify(resp *http.Response) error {
	if err := f.check(resp); err != nil {
		return err
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		streamBegins(resp.Request.Context())
	} else { // whose body is the connection
		resp.Body = &body{ReadCloser: resp.Body, cut: &f.cut}
	}
	return nil
}

// check refuses answers that must not be passed on, and removes from others what must not.
func (f *forward) check(resp *http.Response) error {
	for _, name := range [...]string{"Access-Control-Allow-Credentials", "Access-Control-Allow-Headers", "Access-Control-Allow-Methods", "Access-Control-Allow-Origin"} {
		resp.Header.Del(name)
	}
	if code := resp.StatusCode; f.upgrades && code != http.StatusSwitchingProtocols && code < 400 {
		return refused(fmt.Sprintf("invalid upgrade response: status code %d", code))
	}
	if resp.StatusCode/100 == 3 && resp.Header.Get("Location") != "" && !f.mayRedirect(resp) {
		refuseRedirect(resp)
	}
	return nil
}

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

// mayRedirect reports whether a redirect is passed on: only if that is allowed, and if it stays on this server.
func (f *forward) mayRedirect(resp *http.Response) bool {
	to, err := url.Parse(resp.Header.Get("Location"))
	return f.server.PassRedirects && err == nil && to.Scheme == "" && to.Host == "" && strings.HasPrefix(to.Path, "/") && !strings.HasPrefix(to.Path, "//")
}

// refuseRedirect replaces a redirect. A client that followed it would send its credentials wherever the extension server
// likes.
func refuseRedirect(resp *http.Response) {
	const message = "the backend attempted to redirect this request, which is not permitted"
	_ = resp.Body.Close()
	*resp = http.Response{
		StatusCode: http.StatusBadGateway, Header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "X-Content-Type-Options": {"nosniff"}},
		Body: io.NopCloser(strings.NewReader(message)), ContentLength: int64(len(message)),
	}
}

// fail answers a request that the extension server did not.
func (f *forward) fail(w http.ResponseWriter, r *http.Request, err error) {
	ctx := ofRequest(r.Context())
	if errors.Is(ctx.Err(), context.Canceled) {
		panic(http.ErrAbortHandler) // the client is gone
	}
	f.server.Log.Debug("an extension server did not answer", "name", f.service.name, "error", err)
	if i := request.InfoFrom(ctx); i != nil && i.IsResource && request.TimedOut(ctx) {
		return // the deadline's filter answers
	}
	message := "error trying to reach service: " + err.Error()
	if answer := refused(""); errors.As(err, &answer) {
		message = string(answer)
	}
	f.server.WriteError(w, r, unavailable(message))
}

// refused is an answer that is not passed on.
type refused string

// Error is part of error.
func (r refused) Error() string { return string(r) }

// buffers lends the buffers of proxied bodies to a request.
type buffers struct {
	ctx    context.Context // of the request
	server *Server
}

// Get is part of httputil.BufferPool.
func (b buffers) Get() []byte { return b.server.copies.Get().(*[copySize]byte)[:] }

// Put is part of httputil.BufferPool. When a request has ended nobody shall have its buffer: net/http may still be sending it,
// and what another request reads into it would be sent to this one's client.
func (b buffers) Put(buf []byte) {
	if b.ctx.Err() == nil {
		b.server.copies.Put((*[copySize]byte)(buf))
	}
}
