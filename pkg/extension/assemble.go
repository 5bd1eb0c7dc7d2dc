package extension

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/api/crd"
	crdopenapi "github.com/kanzen-io/kanzen/internal/api/crd/openapi"
	"github.com/kanzen-io/kanzen/internal/api/discovery"
	"github.com/kanzen-io/kanzen/internal/api/openapi"
	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/chain/debug"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/observe/metrics"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

const (
	// registry is the beginning of all keys.
	registry = "/registry/"
	maxBody  = 3 << 20
	minWatch = 30 * time.Minute
	// maxReading and maxWriting bound the requests served at a time.
	maxReading, maxWriting = 400, 200
	// compactEvery is how long history is kept; that of what is listed anew again and again is kept shorter.
	compactEvery, compactMirrorEvery = 5 * time.Minute, time.Minute
)

// parts are the parts of a server.
type parts struct {
	options  *Options
	clock    clock.WithTickerAndDelayedExecution
	guard    *guard.Guard
	metrics  *metrics.Metrics
	custom   *crd.Server
	serving  *catalog.Live
	host     *host
	types    *openapi.TypeConverter
	logs     []*log
	handler  http.Handler
	inFlight *chain.InFlight
	stopping chan struct{} // closed when the server is told to end
}

// log is a log of objects: that of the storage, or that of one kind which is behind functions.
type log struct {
	db     database
	mirror *mirror // nil: it is the storage's
	store  *store.Cluster
	engine *engine.Engine
}

// assemble puts the parts together. Nothing runs yet.
func (s *Server) assemble(ctx context.Context, o *Options, clk clock.WithTickerAndDelayedExecution) (_ *parts, err error) {
	p := &parts{options: o, clock: clk, serving: catalog.New(), types: openapi.NewTypeConverter(),
		inFlight: &chain.InFlight{}, stopping: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	p.metrics = metrics.New(p.serving, prometheus.NewRegistry(), false)
	p.guard = guard.New(o.Log, clk, p.metrics.BackgroundPanicked)
	config, err := hostConfig(o)
	if err != nil {
		return nil, err
	}
	if p.host, err = newHost(config, p.metrics.Registry(), clk, o.Log); err != nil {
		return nil, err
	}
	if err := p.serve(ctx, s.kinds); err != nil {
		return nil, err
	}
	root, err := p.root()
	if err != nil {
		return nil, err
	}
	p.handler = chain.New(chain.Config{
		Handler: root, Authenticator: p.host, Authorizer: authz.Measured(p.host.access, p.metrics.Registry(), clk),
		Impersonator: p.host.access, WriteError: engine.RefuseRequest, Log: o.Log, Clock: clk, OnPanic: p.metrics.Panicked,
		RequestTimeout: requestTimeout, MaxReading: maxReading, MaxWriting: maxWriting, InFlight: p.inFlight,
		Metrics: p.metrics.Filter, OnFilter: p.metrics.Filtered, Random: mathrand.Float64,
	})
	return p, nil
}

// serve opens the logs and puts the kinds into the catalog: those of the storage share a log, each of the others has its
// own.
func (p *parts) serve(ctx context.Context, kinds []*kind) error {
	var storage *log
	var all []crd.Fixed
	for _, k := range kinds {
		if k.err != nil {
			return k.err
		}
		l := storage
		if k.source != nil {
			m := newMirror(k, registry, p.clock)
			l = p.log(m)
			l.mirror = m
		} else if l == nil {
			db, err := p.open(ctx)
			if err != nil {
				return fmt.Errorf("storage: %w", err)
			}
			storage = p.log(db)
			l = storage
		}
		all = append(all, k.fixed(l.engine))
	}
	var err error
	p.custom, err = crd.NewFixed(crd.Config{Catalog: p.serving, Metrics: crd.NewMetrics(p.metrics.Registry(), p.clock),
		Clock: p.clock, Guard: p.guard, Log: p.options.Log}, all...)
	return err
}

func (p *parts) open(ctx context.Context) (database, error) {
	if open := p.options.Storage.open; open != nil {
		return open(ctx, p.options.DataDir)
	}
	return Embedded().open(ctx, p.options.DataDir)
}

func (p *parts) log(db database) *log {
	l := &log{db: db, store: store.NewCluster(db, store.Options{Prefix: registry, Clock: p.clock, Guard: p.guard, Log: p.options.Log, Caller: request.Storage{}})}
	l.engine = engine.New(engine.Config{
		Store: l.store, Admit: admission.Chain(nil), Authorize: authz.Require(p.host.access), Types: p.types,
		Clock: p.clock, NewUID: uuid.NewString, NameSuffix: engine.NameSuffix, MinWatch: minWatch, MaxBody: maxBody,
		Log: p.options.Log, Deprecated: p.metrics.Deprecated,
	})
	p.logs = append(p.logs, l)
	return l
}

// root serves what has passed the chain.
func (p *parts) root() (http.Handler, error) {
	builtin, err := openapi.New(p.clock.Now(), openapi.Served{})
	if err != nil {
		return nil, err
	}
	builder := crdopenapi.NewBuilder(builtin)
	own := builtin.Alone(builder.Parts(p.serving.Now())...)
	return &root{
		resources: p.serving, discovery: discovery.New(nil, p.serving.Now().GroupVersions()),
		openapi: openapi.NewHandler(func() *openapi.Set { return own }, p.options.Log),
		metrics: p.metrics.Handler(false, nil), slis: p.metrics.SLIs(), health: p.health(),
	}, nil
}

// health is what is asked of the server's health.
func (p *parts) health() *debug.Health {
	checks := []debug.Check{{Name: "ping", Test: func(context.Context) error { return nil }}}
	for _, l := range p.logs {
		if l.mirror == nil {
			checks = append(checks, debug.Check{Name: "etcd", Test: l.db.Ping})
		}
	}
	return &debug.Health{Log: p.options.Log, Checked: p.metrics.Checked, Healthz: checks, Live: checks,
		Ready: append(checks[:len(checks):len(checks)], debug.Check{Name: "shutdown", Test: func(context.Context) error {
			select {
			case <-p.stopping:
				return errors.New("process is shutting down")
			default:
				return nil
			}
		}})}
}

// work is what runs beside requests.
func (p *parts) work() []func(ctx context.Context) error {
	quietly := func(name string, f func(ctx context.Context)) func(ctx context.Context) error {
		return func(ctx context.Context) error { p.guard.Keep(ctx, name, f); return nil }
	}
	out := []func(ctx context.Context) error{quietly("authorities of the host cluster", p.host.run)}
	for _, l := range p.logs {
		every := compactEvery
		if l.mirror != nil {
			every = compactMirrorEvery
			out = append(out, quietly("listing of "+l.mirror.kind, func(ctx context.Context) { l.mirror.run(ctx, p.options.Log) }),
				quietly("watching of "+l.mirror.kind, func(ctx context.Context) { l.mirror.watch(ctx, p.options.Log) }))
		}
		out = append(out, l.store.Run, func(ctx context.Context) error { return l.store.RunCompaction(ctx, every) })
	}
	return out
}

// ready waits until the storage is read. Functions may not work yet: that is answered to those who ask for their kinds.
func (p *parts) ready(ctx context.Context) error {
	for _, l := range p.logs {
		if l.mirror != nil {
			continue
		}
		if err := l.store.Fresh(ctx); err != nil {
			return fmt.Errorf("storage: %w", err)
		}
	}
	return nil
}

func (p *parts) close() error {
	var errs []error
	for _, l := range p.logs {
		errs = append(errs, l.db.Close())
	}
	return errors.Join(errs...)
}
