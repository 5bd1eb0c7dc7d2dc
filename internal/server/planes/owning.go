package planes

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/server"
	"github.com/kanzen-io/kanzen/internal/server/planes/owners"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/wire/egress"
)

// This file has planes on one of several servers at a time. A server that shares its log with no others has no owners, and all planes.

// elsewhereError says that another server has a plane.
type elsewhereError struct{ owner *owners.Server }

// Error is part of error.
func (e *elsewhereError) Error() string {
	return "the server " + e.owner.Name + " has the control plane"
}

// own finds the other servers, if there may be some.
func (f *Fleet) own(ctx context.Context, root *server.Plane) error {
	if !f.on.Root.SharesEtcd() || f.url == "" {
		return nil
	}
	at, err := url.Parse(f.url)
	if err != nil {
		return err
	}
	o, err := owners.New(owners.Config{
		DB: f.on.DB, Name: at.Host, Dial: f.on.Egress.Dial(egress.ControlPlane),
		Changed: func(plane types.UID) { f.places.AddAfter(string(plane), 0) }, Joined: f.joined, Went: f.went,
		Clock: f.on.Clock, Guard: f.guard, Log: f.log,
	})
	if err != nil {
		return err
	}
	if err := o.Start(ctx); err != nil {
		return err
	}
	f.owners.Store(o)
	return nil
}

// leave tells the other servers to take what this one gives up.
func (f *Fleet) leave() {
	o := f.owners.Load()
	if o == nil {
		return
	}
	if err := o.Leave(context.WithoutCancel(f.running)); err != nil {
		f.log.Warn("the other servers wait before they take the planes of this one", "error", err)
	}
}

// joined looks at the planes that a server which has come is to have.
func (f *Fleet) joined() {
	for _, h := range f.all() {
		if h.preference() != "" {
			f.places.AddAfter(string(h.uid), 0)
		}
	}
}

// Certificate returns what this server shows to clients that are servers of planes; nil: the client is none. It is for tls.Config.
func (f *Fleet) Certificate(hello *tls.ClientHelloInfo) *tls.Certificate {
	if o := f.owners.Load(); o != nil {
		return o.Certificate(hello)
	}
	return nil
}

// elsewhere returns the server that has a plane, or is to have it, if it is another one.
func (f *Fleet) elsewhere(h *hosted) *owners.Server {
	o := f.owners.Load()
	if o == nil {
		return nil
	}
	owner, _ := o.Owner(h.uid)
	if owner == nil {
		owner = f.preferred(o, h)
	}
	if owner == o.Self() {
		return nil
	}
	return owner
}

// preferred returns the server that a Plane names, if that runs.
func (f *Fleet) preferred(o *owners.Owners, h *hosted) *owners.Server {
	if name := h.preference(); name != "" {
		return o.Named(name)
	}
	return nil
}

// preference is the name of the server that is to have the plane; "": any.
func (h *hosted) preference() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.wanted
}

// prefers takes up the name of the server that is to have the plane, and reports whether it is another than before.
func (h *hosted) prefers(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.wanted
	h.wanted = name
	return before != name
}

// claimed is the log that a plane writes to while this server is its owner, which it is by a fence.
type claimed struct {
	db      store.DB
	fence   int64
	class   *class
	storage storage
}

// claim makes this server the owner of a plane.
func (f *Fleet) claim(ctx context.Context, h *hosted) (*claimed, error) {
	o := f.owners.Load()
	if o == nil {
		return f.take(ctx, h, nil, 0)
	}
	fence, owner, err := o.Claim(ctx, h.uid)
	switch {
	case err != nil:
		return nil, err
	case owner != nil:
		return nil, &elsewhereError{owner}
	}
	own, err := f.take(ctx, h, o, fence)
	if err != nil {
		f.release(h, fence, owners.Asleep()) // another server may reach where it lies
	}
	return own, err
}

// releaseTimeout bounds giving up a plane. If it fails this server stays the owner of a plane that is asleep.
const releaseTimeout = 5 * time.Second

// release gives up a plane that has stopped.
func (f *Fleet) release(h *hosted, fence int64, then owners.Then) {
	o := f.owners.Load()
	if o == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.running), releaseTimeout)
	defer cancel()
	if err := o.Release(ctx, h.uid, fence, then); err != nil {
		f.log.Warn("a plane that has stopped here could not be given up", "plane", h.name, "error", err)
	}
}

// lose stops a plane that another server has taken, as far as it was started by a fence.
func (f *Fleet) lose(h *hosted, fence int64) {
	h.mu.Lock()
	same, over := h.fence == fence, h.over
	h.mu.Unlock()
	if !same {
		return
	}
	if !over { // otherwise it is being deleted
		f.log.Warn("another server has taken a plane, which ends here", "plane", h.name)
	}
	f.logged(h, h.halt(true, owners.Asleep())) // which does not hold
}

// place has a plane where it is to be: it is called when that may have changed.
func (f *Fleet) place(ctx context.Context, uid string) error {
	f.mu.RLock()
	h := f.byUID[types.UID(uid)]
	f.mu.RUnlock()
	o := f.owners.Load()
	if h == nil || o == nil {
		return nil
	}
	if h.restless() {
		f.moves.AddAfter(uid, 0)
	}
	if f.misjudged(h) {
		f.queue.AddAfter(h.name, 0)
	}
	switch owner, wanted := o.Owner(h.uid); {
	case owner == o.Self():
		if to := f.preferred(o, h); to != nil && to != owner {
			return h.halt(true, owners.Passed(to))
		}
		return h.rouse(ctx)
	case owner != nil:
		f.elsewhereNow(h)
	case wanted:
		to := f.preferred(o, h)
		if to == nil {
			to = o.Chosen(h.uid)
		}
		if to == o.Self() {
			return h.rouse(ctx)
		}
	}
	return nil
}

// elsewhereNow takes up that another server has a plane.
func (f *Fleet) elsewhereNow(h *hosted) {
	h.mu.Lock()
	h.had = false
	awake, fence := h.plane != nil, h.fence
	if h.alarm != nil {
		h.alarm.Stop()
		h.alarm = nil
	}
	h.mu.Unlock()
	if awake {
		f.lose(h, fence)
	}
}

// sweepOwners removes the owners of planes that are gone.
func (f *Fleet) sweepOwners(ctx context.Context) error {
	o := f.owners.Load()
	if o == nil {
		return nil
	}
	for _, uid := range o.Planes() {
		if exists, err := f.exists(ctx, uid); err != nil || exists {
			if err != nil {
				return err
			}
			continue
		}
		if err := o.Forget(ctx, uid); err != nil {
			return err
		}
	}
	return nil
}

// rouse wakes a plane, which is to be awake, if it is not.
func (h *hosted) rouse(ctx context.Context) error {
	_, err := h.enter(ctx)
	var elsewhere *elsewhereError
	switch {
	case err == nil:
		h.leave()
		return nil
	case errors.As(err, &elsewhere), errors.Is(err, errOver), errors.Is(err, errAwaitsImport):
		return nil
	}
	return fmt.Errorf("wake the plane %s: %w", h.name, err)
}

// tells reports whether it is this server that tells how a plane is: its owner, or the one that had it last.
func (f *Fleet) tells(h *hosted, p *Plane) bool {
	o := f.owners.Load()
	if o == nil {
		return f.on.Embedded() // otherwise there may be others
	}
	owner, _ := o.Owner(h.uid)
	if owner != nil {
		return owner == o.Self()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.had || p.Status.State == "" && o.Chosen(h.uid) == o.Self()
}

// makes is how long the server that is chosen for a new plane has to make what belongs to it, before the others do.
const makes = 3 * time.Second

// leaves reports whether a new plane is left to another server.
func (f *Fleet) leaves(p *Plane) bool {
	o := f.owners.Load()
	return o != nil && p.Status.URL == "" && f.on.Clock.Since(p.CreationTimestamp.Time) < makes && o.Chosen(p.UID) != o.Self()
}

// serverOf is what the status says of the server that has a plane which is awake; "": there is only one.
func (f *Fleet) serverOf(h *hosted) string {
	if o := f.owners.Load(); o != nil && h.awake() {
		return o.Self().Name
	}
	return ""
}

// isAwake reports whether a plane is awake, on this server or on another.
func (f *Fleet) isAwake(h *hosted) bool {
	if o := f.owners.Load(); o != nil {
		if owner, _ := o.Owner(h.uid); owner != nil && owner != o.Self() {
			return true
		}
	}
	return h.awake()
}

// received returns a request that another server has passed on as its client has sent it, and who asks if the other server says so.
func (f *Fleet) received(r *http.Request) (*http.Request, user.Info, error) {
	o := f.owners.Load()
	if o == nil {
		return nil, nil, errors.New("there are no other servers")
	}
	return o.Received(r)
}

// pass has another server answer a request for a plane, which may last until the fleet stops; as is who asks, as in serve.
func (f *Fleet) pass(w http.ResponseWriter, r *http.Request, name string, as user.Info, watching bool, to *owners.Server) {
	if watching {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(f.serving, cancel)()
		r = r.WithContext(ctx)
		// The chain of the other server bounds how long it lasts.
		rc := http.NewResponseController(w)
		_, _ = rc.SetReadDeadline(time.Time{}), rc.SetWriteDeadline(time.Time{})
		defer f.ended()
	} else { // a server that stands still does not even refuse; one that is only slow answers at its own timeout, and is heard
		ctx, cancel := context.WithTimeout(r.Context(), f.cfg.RequestTimeout+chain.Grace/2)
		defer cancel()
		r = r.WithContext(ctx)
	}
	f.metrics.passedOn.Add(1)
	f.owners.Load().Pass(w, r, as, to, func(err error) { f.failed(w, r, name, to, err) })
}

// ended lets an answer that was cut because this server stops end as watches do.
func (f *Fleet) ended() {
	if f.serving.Err() == nil {
		return
	}
	e := recover()
	if err, ok := e.(error); e != nil && (!ok || !errors.Is(err, http.ErrAbortHandler)) {
		panic(e)
	}
}

// failed answers a request that another server has not.
func (f *Fleet) failed(w http.ResponseWriter, r *http.Request, name string, to *owners.Server, err error) {
	late := errors.Is(err, context.DeadlineExceeded)
	if late || r.Context().Err() == nil {
		f.metrics.passedFailed.Add(1)
		f.log.Warn("a request could not be passed on", "plane", name, "server", to.Name, "error", err)
	}
	if late {
		f.refuse(w, r, name, http.StatusGatewayTimeout, metav1.StatusReasonTimeout,
			"the server that has the control plane did not answer in time; what was requested may have been done")
		return
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" || r.Method == http.MethodGet || r.Method == http.MethodHead {
		w.Header().Set("Retry-After", "1")
		f.refuse(w, r, name, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "the server that has the control plane cannot be reached")
		return
	}
	f.refuse(w, r, name, http.StatusInternalServerError, metav1.StatusReasonInternalError,
		"the server that has the control plane did not answer; what was requested may have been done")
}
