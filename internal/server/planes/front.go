package planes

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/server"
	"github.com/kanzen-io/kanzen/internal/server/planes/exports"
	"github.com/kanzen-io/kanzen/internal/server/planes/owners"
)

// pathPrefix is where planes are on the root's port.
const pathPrefix = "/planes/"

// patience is how long a request waits for a plane that was just made.
const patience = 10 * time.Second

// Front returns a handler that passes requests for planes to them, and all others to the root.
func (f *Fleet) Front(root http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var as user.Info
		if owners.Between(r) {
			var err error
			if r, as, err = f.received(r); err != nil {
				http.Error(w, err.Error(), http.StatusMisdirectedRequest)
				return
			}
			if owners.Asked(r) {
				f.answer(w, r)
				return
			}
		}
		name, inner := f.route(r)
		switch {
		case name == "":
			root.ServeHTTP(w, r)
		case f.misdirected(r):
			f.refuse(w, r, name, http.StatusMisdirectedRequest, metav1.StatusReasonUnknown, "the connection is one to another plane")
		default:
			f.serve(w, r, inner, name, as)
		}
	})
}

// route returns the plane that a request is for, and the request as the plane is to see it; "": it is for the root.
func (f *Fleet) route(r *http.Request) (name string, inner *http.Request) {
	if domain := f.on.Root.PlanesDomain; domain != "" && r.TLS != nil {
		if name, ok := strings.CutSuffix(strings.ToLower(r.TLS.ServerName), "."+domain); ok && len(validation.IsDNS1123Label(name)) == 0 {
			return name, r
		}
	}
	rest, ok := strings.CutPrefix(r.URL.Path, pathPrefix)
	if !ok {
		return "", nil
	}
	// A name goes into paths of requests to the root.
	if name, rest, _ = strings.Cut(rest, "/"); len(validation.IsDNS1123Label(name)) > 0 {
		return "", nil
	}
	prefix := pathPrefix + name
	u := *r.URL
	u.Path = "/" + rest
	if u.RawPath != "" {
		raw, ok := strings.CutPrefix(u.RawPath, prefix)
		if !ok { // the name itself is written with escapes, which nobody needs
			return "", nil
		}
		u.RawPath = slashed(raw)
	}
	inner = new(http.Request)
	*inner = *r
	inner.URL = &u
	inner.RequestURI = slashed(strings.TrimPrefix(r.RequestURI, prefix))
	return name, inner
}

// misdirected reports whether a request names another plane than its connection: clients share connections to hosts that have a
// certificate in common.
func (f *Fleet) misdirected(r *http.Request) bool {
	if f.on.Root.PlanesDomain == "" || r.TLS == nil {
		return false
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	host = strings.ToLower(host)
	return strings.HasSuffix(host, "."+f.on.Root.PlanesDomain) && host != strings.ToLower(r.TLS.ServerName)
}

func slashed(path string) string {
	if strings.HasPrefix(path, "/") {
		return path
	}
	return "/" + path
}

// serve has a plane answer a request, r of the original one, or another server that has the plane. as is who asks if another server
// says so; nil: the credentials say it.
func (f *Fleet) serve(w http.ResponseWriter, original, r *http.Request, name string, as user.Info) {
	h := f.await(r, name)
	if h == nil || !f.isAwake(h) && as == nil && !presents(r) {
		// Who shows nothing wakes nobody and learns nothing, not even which planes there are.
		f.refuse(w, r, name, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
		return
	}
	watching, limit := longRunning(r), h.rate.Load()
	if as != nil {
		limit = nil // a server's own requests are not the plane's
	}
	if to := f.elsewhere(h); to != nil {
		f.pass(w, original, name, as, watching, to)
		return
	}
	if refused := limit.refuses(f.on.Clock.Now(), watching, &h.refused); refused != "" {
		w.Header().Set("Retry-After", "1")
		f.refuse(w, r, name, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, refused)
		return
	}
	defer limit.done(watching)
	var p *server.Plane
	_, err := f.answering(h.lying())
	if !errors.Is(err, errSilent) { // otherwise what is asked would wait as long as its client does
		// The filters that bound how long a request takes are the plane's, which may have to be started first.
		ctx, cancel := context.WithTimeoutCause(r.Context(), f.cfg.RequestTimeout, errStarting)
		p, err = h.enter(ctx)
		if err != nil && context.Cause(ctx) == errStarting { // whatever it was that waited
			err = errStarting
		}
		cancel()
	}
	var elsewhere *elsewhereError
	if errors.As(err, &elsewhere) {
		f.pass(w, original, name, as, watching, elsewhere.owner)
		return
	}
	if err != nil {
		if r.Context().Err() == nil && !expected(err) {
			f.log.Error("a plane could not be started", "plane", name, "error", err)
		}
		h.refused.start.Add(1)
		w.Header().Set("Retry-After", "1")
		message := "the control plane is not available"
		for _, told := range []error{errAwaitsImport, errStarting} {
			if errors.Is(err, told) {
				message += ": " + told.Error()
			}
		}
		f.refuse(w, r, name, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, message)
		return
	}
	defer h.leave()
	h.answered.Add(1)
	if watching {
		h.watching.Add(1)
		defer h.watching.Add(-1)
	} else {
		seat := h.seats.Load().sit(r.Context())
		if seat == nil {
			h.refused.seats.Add(1)
			w.Header().Set("Retry-After", "1")
			f.refuse(w, r, name, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "the control plane has too many requests under way")
			return
		}
		defer seat.stand()
		// An extension server has bounds of its own.
		r = r.WithContext(request.WithWatching(request.WithTurn(r.Context(), seat), seat.stand))
	}
	if as != nil {
		exports.Pass(w, r, p.Transport(as))
		return
	}
	p.ServeHTTP(w, r)
}

// errStarting is why a request for a plane that is being started waits no longer.
var errStarting = errors.New("it is still being started")

// expected reports whether an error is one of those for which a plane is not entered though nothing is wrong with it.
func expected(err error) bool {
	return slices.ContainsFunc([]error{errOver, errOvertaken, errFull, errAwaitsImport, errSilent, errStarting}, func(of error) bool { return errors.Is(err, of) })
}

// await returns the plane of a name; nil: there is none. The creator of one may be faster than the watch that tells of it, and than
// what is made for it.
func (f *Fleet) await(r *http.Request, name string) *hosted {
	h := f.find(name)
	if h != nil && (h.isMade() || h.isImported()) {
		return h
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	select {
	case <-f.listed:
	case <-ctx.Done():
		return nil
	}
	if h == nil && presents(r) && f.root.Do(ctx, http.MethodGet, planesPath+"/"+name, "", nil, nil) == nil {
		for h = f.find(name); h == nil && ctx.Err() == nil; h = f.find(name) {
			<-f.on.Clock.After(time.Millisecond)
		}
	}
	if h != nil {
		select {
		case <-h.made:
		case <-ctx.Done():
		}
	}
	return h
}

// presents reports whether a request has credentials.
func presents(r *http.Request) bool {
	return r.Header.Get("Authorization") != "" || r.TLS != nil && len(r.TLS.PeerCertificates) > 0 ||
		strings.Contains(r.Header.Get("Sec-Websocket-Protocol"), "base64url.bearer.authorization.k8s.io.")
}

// longRunning reports whether a request may last as long as its client wants, as the plane's own filters decide it.
func longRunning(r *http.Request) bool {
	if exports.WatchesPlanes(r) {
		return true
	}
	if path, ok := exports.Below(r.URL.Path); ok {
		inner, at := *r, *r.URL
		at.Path, inner.URL = path, &at
		r = &inner
	}
	i, err := request.NewInfo(r)
	return err == nil && chain.LongRunning(i)
}

// auditPlane is the annotation of the audit events of requests to planes: the plane's name.
const auditPlane = "kanzen.io/plane"

// refuse answers a request to a plane, which need not exist, with a Status.
func (f *Fleet) refuse(w http.ResponseWriter, r *http.Request, plane string, code int32, reason metav1.StatusReason, message string) {
	chain.Refusal(f.audit.Load().Foreign(auditPlane, plane), f.on.Clock)(w, r, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message,
	}})
}
