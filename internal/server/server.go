package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/base/queue"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/observe/metrics"
	"github.com/kanzen-io/kanzen/internal/process"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/process/keys"
	"github.com/kanzen-io/kanzen/internal/process/listener"
	"github.com/kanzen-io/kanzen/internal/wire/pki"
)

// server is a control plane from its start to its end: what assemble makes of a Plane's settings, for one run.
type server struct {
	*source
	handler  http.Handler
	listener *listener.Listener // nil: only in-process requests are served
	requests context.Context    // parent of those of all requests: its end is theirs
	files    pki.Files
	rootCA   []byte // the authority of its serving certificate; nil: it is not known
	work     work
	ending   *listener.Shutdown
	notReady func(context.Context) error // why it is not ready yet
	closers  process.Closers
	ready    atomic.Bool // it was ready
}

// base has what most parts are made of.
type base struct {
	cfg     *config.Plane
	root    *config.Process // what it does once for the process; nothing if it is not at the root
	log     *slog.Logger
	process *process.Process
	metrics *metrics.Metrics
	queues  *queue.Metrics
	sends   *metrics.Clients
	guard   *guard.Guard
	objects *catalog.Raw
	door    *inprocess.Door
	// itself is the client for the server's own requests.
	itself *inprocess.Client
	socket net.Listener // nil: there is none
	port   int
	seams  Seams
	opened *process.Closers // what is closed when the server has ended
}

// assemble makes a control plane on a process. Nothing is served before run.
// If assemble fails, it closes what it has opened.
func assemble(ctx context.Context, cfg *config.Plane, on *process.Process, seams Seams) (_ *server, err error) {
	var opened process.Closers
	defer func() {
		if err != nil {
			err = errors.Join(err, opened.Close())
		}
	}()
	a := &assembly{opened: &opened}
	if err := a.ground(ctx, cfg, on, seams); err != nil {
		return nil, err
	}
	for _, stage := range []func(context.Context) error{a.access, a.writes, a.kinds, a.state, a.requests, a.background, a.finish} {
		if err := stage(ctx); err != nil {
			return nil, err
		}
	}
	on.Use()
	return a.made, nil
}

// keys returns the keys that the seams bring or the settings name.
func (b *base) keys(ctx context.Context) (*keys.Keys, error) {
	if o := b.seams.origin; o != nil {
		return o.keys, nil
	}
	if b.seams.Keys != nil {
		return b.seams.Keys(ctx)
	}
	return keys.Load(ctx, b.root, b.cfg, b.process.DB, b.port, b.process.Clock, b.metrics.Registry(), b.log)
}

// Transport returns a transport for requests of a user to this server.
func (s *server) Transport(u user.Info) http.RoundTripper { return s.base.door.Transport(u) }
