package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/access/audit"
	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/process"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/wire/pki"
)

// ErrStopped says that a control plane does not run.
var ErrStopped = errors.New("the control plane is stopped")

// Plane is a control plane: a prefix of a process's log, with keys, users, kinds, views and controllers of its own. It can be started
// and stopped again and again. A stopped one is only its settings; what it knew is in the log and below its data directory, where
// its next start finds it, as that of another process would. Its methods may be called from several goroutines.
type Plane struct {
	cfg   *config.Plane
	on    *process.Process
	seams Seams

	mu      sync.Mutex             // held while a run begins, and while one ends
	run     *run                   // the last one; nil after Stop; guarded by mu
	serving atomic.Pointer[server] // nil: none is assembled
}

// run is one run of a Plane.
type run struct {
	cancel context.CancelFunc
	ready  chan struct{} // closed when the server is ready
	done   chan struct{} // closed when it has ended
	err    error         // how it ended; set before done is closed
}

// New makes a stopped control plane of settings. It does not change cfg, and the caller must not change it either. Two control
// planes on a process need different prefixes.
func New(cfg *config.Plane, on *process.Process, seams Seams) *Plane {
	return &Plane{cfg: cfg, on: on, seams: seams}
}

// Start starts the control plane. It returns when that is ready: it accepts requests, has made the first objects of a cluster, and
// /readyz says so (KMS plugins apart). If it fails, or ctx ends before, it is stopped again and Start returns why; afterwards the
// end of ctx means nothing. A started one is left as it is, and one that stops or has failed is started anew.
func (p *Plane) Start(ctx context.Context) error {
	r, began := p.begin(ctx)
	select {
	case <-r.ready:
		return nil
	case <-r.done:
	case <-ctx.Done():
		if !began {
			return context.Cause(ctx) // somebody else has started it, and may still wait for it
		}
	}
	if err := p.end(r); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return ErrStopped // meanwhile, by somebody else
}

// begin returns the run that is under way, or begins one.
func (p *Plane) begin(ctx context.Context) (_ *run, began bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != nil {
		select {
		case <-p.run.done: // it has failed
		default:
			return p.run, false
		}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &run{cancel: cancel, ready: make(chan struct{}), done: make(chan struct{})}
	p.run = r
	go func() {
		defer close(r.done)
		defer cancel()
		r.err = p.serve(ctx, func() { close(r.ready) })
	}()
	return r, true
}

// serve assembles and runs a server until ctx ends.
func (p *Plane) serve(ctx context.Context, ready func()) error {
	s, err := assemble(ctx, p.cfg, p.on, p.seams)
	if err != nil && ctx.Err() != nil {
		return nil // it was stopped, and so nothing came of it
	}
	if err != nil {
		return err
	}
	p.serving.Store(s)
	defer p.serving.Store(nil)
	return s.run(ctx, func() {
		s.ready.Store(true)
		ready()
	})
}

// Stop ends the control plane: requests under way are answered, watches end, and nothing of it is left. It returns when that is
// done, with how it ended. Stopping a stopped one does nothing.
func (p *Plane) Stop() error {
	p.mu.Lock()
	r := p.run
	p.mu.Unlock()
	if r == nil {
		return nil
	}
	return p.end(r)
}

// end ends a run and returns how it ended.
func (p *Plane) end(r *run) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.cancel()
	<-r.done
	if p.run == r {
		p.run = nil
	}
	return r.err
}

// Done returns a channel that is closed when the control plane has ended: after Stop, or because it cannot go on. Then Stop
// returns why.
func (p *Plane) Done() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		ended := make(chan struct{})
		close(ended)
		return ended
	}
	return p.run.done
}

// Transport returns a transport for requests of a user, without a socket. With a nil user the credentials in the requests decide.
// It remains valid when the control plane is started again; while that is stopped, requests fail with ErrStopped.
func (p *Plane) Transport(u user.Info) http.RoundTripper { return &transport{p, u} }

type transport struct {
	plane *Plane
	user  user.Info
}

// RoundTrip is part of http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	s := t.plane.serving.Load()
	if s == nil {
		if r.Body != nil {
			_ = r.Body.Close() // nobody reads it
		}
		return nil, ErrStopped
	}
	return s.Transport(t.user).RoundTrip(r)
}

// ServeHTTP answers a request that has come by a port of somebody else's, and ends with the control plane as those of its own port do. A
// stopped one answers 503.
func (p *Plane) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := p.serving.Load()
	if s == nil {
		http.Error(w, ErrStopped.Error(), http.StatusServiceUnavailable)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.requests, cancel)()
	s.handler.ServeHTTP(w, r.WithContext(ctx))
}

// Running reports whether it has become ready and was not stopped since.
func (p *Plane) Running() bool {
	s := p.serving.Load()
	return s != nil && s.ready.Load()
}

// Auditor returns what makes the audit events of its requests; nil: nothing does, or the control plane is stopped. It is valid until Stop.
func (p *Plane) Auditor() *audit.Auditor {
	if s := p.serving.Load(); s != nil {
		return s.audits
	}
	return nil
}

// Due returns when its controllers have to do something next: now if they work, zero if nothing waits.
func (p *Plane) Due() time.Time {
	if s := p.serving.Load(); s != nil {
		return s.base.queues.Due()
	}
	return time.Time{}
}

// CatchUp returns once everything that requests depend on (the catalog, authorizers) reflects the writes that were acknowledged
// before the call.
func (p *Plane) CatchUp(ctx context.Context) error {
	objects := p.objects()
	if objects == nil {
		return ErrStopped
	}
	return objects.CatchUp(ctx)
}

// objects returns what it serves; nil: it is stopped.
func (p *Plane) objects() *catalog.Raw {
	if s := p.serving.Load(); s != nil {
		return s.base.objects
	}
	return nil
}

// Address returns the address on which the control plane listens; "" if it does not.
func (p *Plane) Address() string {
	if s := p.serving.Load(); s != nil {
		return s.listener.Address()
	}
	return ""
}

// URL returns the address by which clients reach it: the one to advertise if it listens on all addresses.
func (p *Plane) URL() string {
	host, port, err := net.SplitHostPort(p.Address())
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip, err := p.on.Advertise(); err == nil {
			host = ip.String()
		}
	}
	return "https://" + net.JoinHostPort(host, port)
}

// Files returns the paths of the keys and certificates that the control plane has made itself; empty if they were given, or if it
// is stopped.
func (p *Plane) Files() pki.Files {
	if s := p.serving.Load(); s != nil {
		return s.files
	}
	return pki.Files{}
}

// Authority returns the authority of the certificate on its port, in PEM; nil: it is not known, or the control plane is stopped.
func (p *Plane) Authority() []byte {
	if s := p.serving.Load(); s != nil {
		return s.rootCA
	}
	return nil
}

// Kubeconfig returns the path of the administrator's kubeconfig; "" if there is none.
func (p *Plane) Kubeconfig() string { return p.Files().Kubeconfig }
