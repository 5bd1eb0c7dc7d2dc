package server

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"k8s.io/apiserver/pkg/authentication/user"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/access/authn"
	"github.com/kanzen-io/kanzen/internal/access/authn/methods"
	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/access/authz/modes"
	"github.com/kanzen-io/kanzen/internal/api/builtin"
	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/api/connect"
	"github.com/kanzen-io/kanzen/internal/backup/online"
	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/base/logs"
	"github.com/kanzen-io/kanzen/internal/base/queue"
	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/chain/debug"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/forks"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/observe/metrics"
	recordedparts "github.com/kanzen-io/kanzen/internal/observe/recorder/parts"
	"github.com/kanzen-io/kanzen/internal/process"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/process/encryption"
	"github.com/kanzen-io/kanzen/internal/process/history"
	"github.com/kanzen-io/kanzen/internal/process/keys"
	"github.com/kanzen-io/kanzen/internal/process/listener"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/request/extensions"
	"github.com/kanzen-io/kanzen/internal/server/controlplane"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/wire/egress"
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
	log, clk := on.Log, on.Clock
	var opened process.Closers
	defer func() {
		if err != nil {
			err = errors.Join(err, opened.Close())
		}
	}()
	requests, cut := context.WithCancel(context.WithoutCancel(ctx))
	opened.Add(func() error { cut(); return nil })
	socket, err := on.Listen(ctx)
	if err != nil {
		return nil, err
	}
	opened.Add(func() error { return process.ClosePort(socket) })
	serving := catalog.New()
	measured := metrics.New(serving, on.Metrics, cfg.Gates().Enabled(features.NativeHistograms))
	shape, err := cfg.MetricsShape()
	if err != nil {
		return nil, err
	}
	measured.Register(metrics.Identity(cfg.VersionInfo(), cfg.Versions(), cfg.Gates())...)
	guarded := guard.New(log, clk, measured.BackgroundPanicked)
	sealed, err := encryption.Open(ctx, encryption.Config{
		File: cfg.EncryptionConfigFile, Reload: cfg.EncryptionConfigReload, KMSv1: cfg.Gates().Enabled(features.KMSv1), Server: controlplane.IdentityName(on.Hostname()),
		Registry: measured.Registry(), Clock: clk, Guard: guarded, Log: log,
	})
	if err != nil {
		return nil, err
	}
	opened.Add(sealed.Close)
	past := history.New(on.Root, on.DB, cfg.KeyPrefix(), on.Hostname(), clk, log)
	stored := store.NewCluster(on.DB, store.Options{Past: past.Store(), Prefix: cfg.KeyPrefix(), Shown: cfg.ShownPrefix(), Transformer: sealed.OfKey, Clock: clk,
		Metrics: store.NewMetrics(measured.Registry()), Guard: guarded, Log: log, Caller: request.Storage{}, Compare: cfg.Gates().Enabled(features.DetectCacheInconsistency)}, on.Parts()...)
	measured.Register(stored.Collector(store.Polls{Objects: cfg.EtcdCountMetricPoll, Size: cfg.EtcdSizeMetricPoll}, serving.MakeViews))
	if past != nil {
		opened.Add(past.Close)
	}
	objects := &catalog.Raw{Live: serving, Store: stored}
	door := inprocess.NewDoor(requests)
	sends := metrics.NewClients(measured.Registry())
	door.Measure = sends.InProcess
	queues := queue.NewMetrics(measured.Registry(), clk)
	b := &base{
		cfg: cfg, root: on.Root, log: log, process: on, metrics: measured, guard: guarded, objects: objects,
		queues: queues, sends: sends, door: door, itself: door.As(controlplane.Itself(), controlplane.Agent), socket: socket, port: on.PortOf(socket), seams: seams, opened: &opened,
	}
	loaded := logs.Step(log, clk, "loading keys and certificates", "keys and certificates are loaded")
	secrets, err := b.keys(ctx)
	if err != nil {
		return nil, err
	}
	loaded()
	if seams.origin == nil {
		opened.Add(secrets.Close)
	}
	certificates := secrets.InUse(on.Root, cfg)

	// Authentication, authorization and admission.
	policy, err := on.Policy(cfg.Gates())
	if err != nil {
		return nil, err
	}
	authorizers, err := modes.New(modes.Config{
		Flags: cfg.Authorization(), File: cfg.AuthorizationConfigFile, PolicyFile: cfg.AuthorizationPolicyFile, Bootstrap: policy, Gates: cfg.Gates(),
		Server: controlplane.IdentityName(on.Hostname()), Follow: objects.Follow, Dial: on.Egress.Dial(egress.ControlPlane),
		Registry: measured.Registry(), Clock: clk, Guard: guarded, Log: log,
	})
	if err != nil {
		return nil, err
	}
	opened.Add(authorizers.Close)
	var authenticators *methods.Set
	if o := seams.origin; o != nil {
		authenticators = o.authenticators
	} else {
		if authenticators, err = b.authentication(secrets, authorizers); err != nil {
			return nil, err
		}
		opened.Add(authenticators.Close)
	}
	auditor, err := b.auditor()
	if err != nil {
		return nil, err
	}
	from := &source{base: b, history: past, keys: secrets, authenticators: authenticators, audits: auditor}
	recorded, err := on.Recorder(measured.Register)
	if err != nil {
		return nil, err
	}
	filter, wrote := b.recording(recorded)
	rails := b.guardrails()
	admit, directories, err := b.admission(ctx, authorizers, rails)
	if err != nil {
		return nil, err
	}
	kubelets, err := b.kubelets()
	if err != nil {
		return nil, err
	}
	reached := connect.New(kubelets, objects, cfg.Gates()).Connect
	if seams.origin != nil {
		reached = forks.Connect
	}
	eng := engine.New(engine.Config{
		Store: stored, Admit: admit, Authorize: authz.Require(authorizers), Types: on.Types, Common: seams.Common,
		Clock: clk, NewUID: uuid.NewString, NameSuffix: engine.NameSuffix,
		MinWatch: time.Duration(cfg.MinRequestTimeout) * time.Second, MaxBody: int64(cfg.MaxRequestBodyBytes),
		Connect: reached, Log: log, Deprecated: recorded.TellDeprecated(measured.Deprecated), Metrics: engine.NewMetrics(measured.Registry(), serving.Serves), Transformer: sealed.Of,
		Wrote:              wrote,
		UnsafeDelete:       cfg.Gates().Enabled(features.AllowUnsafeMalformedObjectDeletion),
		PagesAtZero:        !cfg.WatchCache,
		Shards:             cfg.Gates().Enabled(features.ShardedListAndWatch),
		NoWatchLists:       cfg.Gates().Off(features.WatchList),
		CompressWatchLists: cfg.Gates().Enabled(features.WatchListCompression),
		Past:               past.Engine(),
		Extensions:         cfg.Extensions(), Namespaces: b.namespaces, Rights: modes.Rights{Set: authorizers},
		StoreCBOR: cfg.Gates().Enabled(features.CBORServingAndStorage),
	})
	services, err := b.allocation(ctx)
	if err != nil {
		return nil, err
	}

	// What is served.
	d := b.deps(authorizers, authenticators, b.tokenIssuer(secrets, authorizers), services)
	if d.Chosen, err = b.chosen(); err != nil {
		return nil, err
	}
	resources := builtin.Resources(d)
	if err := d.Chosen.Wrong(); err != nil {
		return nil, err
	}
	if cfg.WarnWorkloads && len(cfg.Controllers) > 0 {
		builtin.WarnUnattended(resources, objects, clk)
	}
	serving.Begin(catalog.Builtin(eng, resources, d.Chosen.Serves)...)
	custom := b.customResources(eng)
	opened.Add(custom.Close)
	if err := b.ownKinds(eng, custom); err != nil {
		return nil, err
	}
	end := listener.NewShutdown(on.Root, cut, clk, log)
	agg := b.aggregator(secrets, custom, end.Gone)
	opened.Add(agg.Close)
	others, err := b.peers(eng, secrets, end.Gone)
	if err != nil {
		return nil, err
	}
	steps := &controlplane.Milestones{}
	health := controlplane.Health(log, stored, steps, end.Stopping, measured.Checked, clk, cfg.LivezGrace,
		controlplane.EtcdTimeouts{
			Health: cmp.Or(cfg.EtcdHealthTimeout, config.DefaultEtcdTimeout), Ready: cmp.Or(cfg.EtcdReadyTimeout, config.DefaultEtcdTimeout)}, slices.Concat(agg.Checks(), sealed.Started(), steps.Gated(cfg.Gates()), others.roster.Checks())...)
	started := &debug.Health{Ready: health.Ready}
	health.Healthz, health.Ready = append(health.Healthz, sealed.Checks()...), append(health.Ready, sealed.Checks()...) // a restart helps no plugin, and nobody waits for one

	// What tells of all this, and what is made of the whole.
	flow, flowFilter := b.flowControl()
	database := &online.Server{Process: on, Plane: cfg, Port: socket != nil, History: past, Registry: measured.Registry()}
	backups, err := database.Scheduler(&opened)
	if err != nil {
		return nil, err
	}
	identity := b.identity()
	parts := b.parts(custom, flow)
	found := b.findings(recorded, parts, certificates, backups, flow, started.NotReady, identity)
	reading := recordedparts.Resources(recorded, authorizers, objects, parts, found.Findings)
	if cfg.Extensions().Has(extensions.History) {
		reading = append(reading, past.Resources(objects)...)
	}
	writing, copies := from.copies(authz.Require(authorizers))
	reading = append(reading, writing...)
	serving.Begin(catalog.Builtin(eng, reading, func(schema.GroupVersionResource) bool { return true })...)
	agg.Local(serving.Now().GroupVersions())
	docs, err := b.openAPI(agg, reading)
	if err != nil {
		return nil, err
	}

	// What every request passes.
	opened.Add(kubelets.Close) // closed before the audit log, which records their end
	traced, err := on.Tracing(ctx, &opened)
	if err != nil {
		return nil, err
	}
	room := database.Space()
	page, pageFilter := b.console(recorded, room != nil)
	root := (&root{
		catalog: serving, discovery: b.discovery(agg, others), openapi: docs, health: health,
		metrics: measured.Handler(on.Root.Profiling, shape), slis: measured.SLIs(), issuer: secrets.Discovery, profiling: on.Root.Profiling, flow: flow,
		zpages: b.zpages(), version: cfg.VersionInfo(), verbosity: on.Verbosity,
		rewriter: sealed.Rewriter(objects, clk), snapshots: database.Snapshots(), space: room, console: page, forks: copies,
		exports: seams.Exports, transfers: seams.Transfers,
	}).begin()
	versions, untold := controlplane.TellStorageVersions(cfg.Gates(), &controlplane.StorageVersions{Raw: objects, Client: b.itself,
		Server: controlplane.IdentityName(on.Hostname()), Resources: resources, Serves: d.Chosen.Serves, Now: clk.Now})
	var impersonations chain.ImpersonationObserver
	legacy := cfg.Gates().Off(features.ConstrainedImpersonation)
	if !legacy { // these metrics came with the gate
		impersonations = metrics.NewImpersonation(measured.Registry())
	}
	handler := chain.New(chain.Config{
		Handler: root, Page: root.pages.Filters, CBOR: cfg.Gates().Enabled(features.CBORServingAndStorage), Extensions: cfg.Extensions(),
		Authenticator: authn.Measured(page.Authenticator(inprocess.Authenticator{Next: authenticators.Authenticator()}), measured.Registry(), clk),
		Authorizer:    authz.Measured(page.Authorizer(authorizers), measured.Registry(), clk),
		Impersonator:  authorizers, Impersonations: impersonations, LegacyImpersonation: legacy,
		WriteError: engine.RefuseRequest, Log: log, Clock: clk, OnPanic: measured.Panicked,
		RequestTimeout: cfg.RequestTimeout, MaxReading: cfg.MaxReadOnlyInFlight, MaxWriting: cfg.MaxMutatingInFlight,
		CORS: cfg.CORSOrigins(), OriginCheck: cfg.WebSocketOriginCheck, HSTS: cfg.HSTSDirectives, ProxyHeaders: cfg.ProxyHeaders(),
		InFlight: end.InFlight, Watches: end.Watches, SendRetryAfter: end.RetryAfter(),
		Auditor: auditor, FlowControl: flowFilter, Metrics: measured.Filter, Recorder: filter, OnFilter: measured.Filtered, Tracing: traced, OwnRequests: measured.Self,
		Console: pageFilter, Untold: untold, Observe: seams.Observe, Intervene: seams.Intervene,
		LogAccess: on.Verbosity.LogsAccess, GoawayChance: cfg.GoawayChance, Random: mathrand.Float64,
	})
	door.Open(handler)

	// What runs beside requests.
	first, err := b.firstObjects(eng, secrets, services, agg, identity, versions, steps, health.NotReady, policy)
	if err != nil {
		return nil, err
	}
	signing := secrets
	if seams.origin.rehearses() {
		signing = secrets.Public()
	}
	work, err := b.work(runnables{copies, stored, others, health.NotReady, authorizers, authenticators, secrets, certificates, custom, agg, flow, first, steps, sealed, recorded, parts, found, database, backups, room, rails, directories, past, b.controllers(signing, docs)})
	if err != nil {
		return nil, err
	}
	s := &server{source: from, handler: handler, requests: requests, rootCA: secrets.RootCA, work: work, ending: end, notReady: started.NotReady, closers: opened}
	if socket != nil {
		front := http.Handler(handler)
		if seams.Front != nil {
			front = seams.Front(handler)
		}
		if s.listener, err = listener.New(listener.Config{Root: on.Root, Port: socket, Handler: front, Keys: secrets, Requests: requests,
			RequestTimeout: cfg.RequestTimeout, Shown: seams.Certificate, HandshakeFailed: measured.HandshakeFailed, Log: log}); err != nil {
			return nil, err
		}
	}
	if secrets.Files != nil {
		s.files = *secrets.Files
	}
	on.Use()
	return s, nil
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
