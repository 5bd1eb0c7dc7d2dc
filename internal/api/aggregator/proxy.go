package aggregator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/request/route"
	"github.com/kanzen-io/kanzen/internal/wire/frontproxy"
)

// copySize is the size of the pieces in which bodies are passed on, in bytes.
const copySize = 32 << 10

// discoveryTimeout bounds a client's request for the discovery document of a group and version.
const discoveryTimeout = 5 * time.Second

// ServeHTTP passes a request on to the extension server. The request has been authenticated and authorized.
func (c *claim) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := c.service.Load()
	if !frontproxy.Clean(r.URL.Path) {
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
	if frontproxy.Upgrade(r.Header) != "" {
		stream, upgrading, leave := frontproxy.NewStream(ctx, w, c.server.Ending)
		defer leave()
		r, w = r.WithContext(stream), upgrading
	}
	// Flow control gets its seats back: the extension server has its own.
	request.Watching(ctx)
	forward := &forward{server: c.server, service: v, address: address, user: c.server.shown(u)}
	forward.serve(w, r)
}

// unavailable returns the error for requests while the APIService is not available, with the reason.
func (v *service) unavailable() error {
	if v.available.Reason == "" {
		return unavailable("service unavailable")
	}
	return unavailable(fmt.Sprintf("service unavailable: %s: %s", v.available.Reason, v.available.Message))
}

func unavailable(message string) error { return apierrors.NewServiceUnavailable(message) }

// shown is a user as extension servers are told of it.
func (c *Config) shown(u user.Info) user.Info {
	if !c.NoUID {
		return u
	}
	return &user.DefaultInfo{Name: u.GetName(), Groups: u.GetGroups(), Extra: u.GetExtra()}
}

// forward passes one request on.
type forward struct {
	server  *Server
	service *service
	address string
	user    user.Info
}

func (f *forward) serve(w http.ResponseWriter, r *http.Request) {
	transport := f.service.backend.shared
	if frontproxy.Upgrade(r.Header) != "" {
		transport = f.service.backend.upgrade
	}
	(&frontproxy.Forward{
		Address: f.address, User: f.user, Transport: transport, Check: f.redirects, Fail: f.fail,
		Buffers: buffers{r.Context(), f.server}, ErrorLog: f.server.silent,
	}).Serve(w, r)
}

// redirects replaces a redirect that is not passed on.
func (f *forward) redirects(resp *http.Response) error {
	if resp.StatusCode/100 == 3 && resp.Header.Get("Location") != "" && !f.mayRedirect(resp) {
		refuseRedirect(resp)
	}
	return nil
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
	ctx := frontproxy.OfRequest(r.Context())
	if errors.Is(ctx.Err(), context.Canceled) {
		panic(http.ErrAbortHandler) // the client is gone
	}
	f.server.Log.Debug("an extension server did not answer", "name", f.service.name, "error", err)
	if i := request.InfoFrom(ctx); i != nil && i.IsResource && request.TimedOut(ctx) {
		return // the deadline's filter answers
	}
	message := "error trying to reach service: " + err.Error()
	if answer := frontproxy.Refused(""); errors.As(err, &answer) {
		message = string(answer)
	}
	f.server.WriteError(w, r, unavailable(message))
}

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
