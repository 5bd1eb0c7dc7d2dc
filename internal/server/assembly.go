package server

import (
	"cmp"
	"context"
	mathrand "math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/access/authn"
	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/access/authz/bootstrap"
	"github.com/kanzen-io/kanzen/internal/access/authz/modes"
	"github.com/kanzen-io/kanzen/internal/api/builtin"
	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/api/connect"
	"github.com/kanzen-io/kanzen/internal/api/openapi"
	"github.com/kanzen-io/kanzen/internal/backup/online"
	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/base/logs"
	"github.com/kanzen-io/kanzen/internal/base/queue"
	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/chain/debug"
	"github.com/kanzen-io/kanzen/internal/controllers/allocation"
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
	"github.com/kanzen-io/kanzen/internal/process/listener"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/request/extensions"
	"github.com/kanzen-io/kanzen/internal/server/controlplane"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/wire/egress"
	"github.com/kanzen-io/kanzen/internal/wire/kubelet"
)

// assembly is a control plane that is being made, one stage after the other. Each stage needs what those before it have made.
type assembly struct {
	b      *base
	opened *process.Closers // what is closed when the server has ended
	runnables
	made *server

	// Of ground.
	cut   context.CancelFunc // ends requests
	live  *catalog.Live
	shape *metrics.Shape
	// Of access.
	policy    *bootstrap.Objects
	authorize func(context.Context, *request.Info) error
	from      *source
	// Of writes.
	recording chain.Filter
	kubelets  *kubelet.Server
	engine    *engine.Engine
	// Of kinds.
	services  *allocation.Services
	chosen    *builtin.Chosen
	resources []*engine.Resource
	ending    *listener.Shutdown
	// Of state.
	health   *debug.Health
	started  *debug.Health // without what a restart does not help
	queueing chain.Filter
	identity *controlplane.Identity
	docs     *openapi.Handler
	// Of requests.
	versions *controlplane.StorageVersions
}

// ground makes what everything stands on: the port, metrics, encryption at rest, the store, and the door for the server's own requests.
func (a *assembly) ground(ctx context.Context, cfg *config.Plane, on *process.Process, seams Seams) (err error) {
	log, clk, gates := on.Log, on.Clock, cfg.Gates()
	requests, cut := context.WithCancel(context.WithoutCancel(ctx))
	a.cut = cut
	a.opened.Add(func() error { cut(); return nil })
	socket, err := on.Listen(ctx)
	if err != nil {
		return err
	}
	a.opened.Add(func() error { return process.ClosePort(socket) })
	a.live = catalog.New()
	measured := metrics.New(a.live, on.Metrics, gates.Enabled(features.NativeHistograms))
	if a.shape, err = cfg.MetricsShape(); err != nil {
		return err
	}
	measured.Register(metrics.Identity(cfg.VersionInfo(), cfg.Versions(), gates)...)
	guarded := guard.New(log, clk, measured.BackgroundPanicked)
	a.sealed, err = encryption.Open(ctx, encryption.Config{
		File: cfg.EncryptionConfigFile, Reload: cfg.EncryptionConfigReload, KMSv1: gates.Enabled(features.KMSv1), Server: controlplane.IdentityName(on.Hostname()),
		Registry: measured.Registry(), Clock: clk, Guard: guarded, Log: log,
	})
	if err != nil {
		return err
	}
	a.opened.Add(a.sealed.Close)
	a.history = history.New(on.Root, on.DB, cfg.KeyPrefix(), on.Hostname(), clk, log)
	a.store = store.NewCluster(on.DB, store.Options{Past: a.history.Store(), Prefix: cfg.KeyPrefix(), Shown: cfg.ShownPrefix(), Transformer: a.sealed.OfKey, Clock: clk,
		Metrics: store.NewMetrics(measured.Registry()), Guard: guarded, Log: log, Caller: request.Storage{}, Compare: gates.Enabled(features.DetectCacheInconsistency)}, on.Parts()...)
	measured.Register(a.store.Collector(store.Polls{Objects: cfg.EtcdCountMetricPoll, Size: cfg.EtcdSizeMetricPoll}, a.live.MakeViews))
	if a.history != nil {
		a.opened.Add(a.history.Close)
	}
	door := inprocess.NewDoor(requests)
	sends := metrics.NewClients(measured.Registry())
	door.Measure = sends.InProcess
	a.b = &base{
		cfg: cfg, root: on.Root, log: log, process: on, metrics: measured, guard: guarded, objects: &catalog.Raw{Live: a.live, Store: a.store},
		queues: queue.NewMetrics(measured.Registry(), clk), sends: sends, door: door, itself: door.As(controlplane.Itself(), controlplane.Agent),
		socket: socket, port: on.PortOf(socket), seams: seams, opened: a.opened,
	}
	a.made = &server{requests: requests}
	return nil
}

// access makes what knows who asks and what they may do, and what notes it.
func (a *assembly) access(ctx context.Context) (err error) {
	b, cfg, on := a.b, a.b.cfg, a.b.process
	loaded := logs.Step(b.log, on.Clock, "loading keys and certificates", "keys and certificates are loaded")
	if a.keys, err = b.keys(ctx); err != nil {
		return err
	}
	loaded()
	if b.seams.origin == nil {
		a.opened.Add(a.keys.Close)
	}
	a.certificates = a.keys.InUse(on.Root, cfg)
	if a.policy, err = on.Policy(cfg.Gates()); err != nil {
		return err
	}
	a.authorizers, err = modes.New(modes.Config{
		Flags: cfg.Authorization(), File: cfg.AuthorizationConfigFile, PolicyFile: cfg.AuthorizationPolicyFile, Bootstrap: a.policy, Gates: cfg.Gates(),
		Server: controlplane.IdentityName(on.Hostname()), Follow: b.objects.Follow, Dial: on.Egress.Dial(egress.ControlPlane),
		Registry: b.metrics.Registry(), Clock: on.Clock, Guard: b.guard, Log: b.log,
	})
	if err != nil {
		return err
	}
	a.opened.Add(a.authorizers.Close)
	a.authorize = authz.Require(a.authorizers)
	if o := b.seams.origin; o != nil {
		a.authenticators = o.authenticators
	} else {
		if a.authenticators, err = b.authentication(a.keys, a.authorizers); err != nil {
			return err
		}
		a.opened.Add(a.authenticators.Close)
	}
	auditor, err := b.auditor()
	a.from = &source{base: b, history: a.history, keys: a.keys, authenticators: a.authenticators, audits: auditor}
	return err
}

// writes makes the engine, with admission before its writes and the flight recorder behind them.
func (a *assembly) writes(ctx context.Context) (err error) {
	b, cfg, on := a.b, a.b.cfg, a.b.process
	gates := cfg.Gates()
	if a.recorder, err = on.Recorder(b.metrics.Register); err != nil {
		return err
	}
	filter, wrote := b.recording(a.recorder)
	a.recording = filter
	a.guardrails = b.guardrails()
	admit, directories, err := b.admission(ctx, a.authorizers, a.guardrails)
	if err != nil {
		return err
	}
	a.directories = directories
	if a.kubelets, err = b.kubelets(); err != nil {
		return err
	}
	reached := connect.New(a.kubelets, b.objects, gates).Connect
	if b.seams.origin != nil {
		reached = forks.Connect
	}
	a.engine = engine.New(engine.Config{
		Store: a.store, Admit: admit, Authorize: a.authorize, Types: on.Types, Common: b.seams.Common,
		Clock: on.Clock, NewUID: uuid.NewString, NameSuffix: engine.NameSuffix,
		MinWatch: time.Duration(cfg.MinRequestTimeout) * time.Second, MaxBody: int64(cfg.MaxRequestBodyBytes),
		Connect: reached, Log: b.log, Deprecated: a.recorder.TellDeprecated(b.metrics.Deprecated), Metrics: engine.NewMetrics(b.metrics.Registry(), a.live.Serves), Transformer: a.sealed.Of,
		Wrote:              wrote,
		UnsafeDelete:       gates.Enabled(features.AllowUnsafeMalformedObjectDeletion),
		PagesAtZero:        !cfg.WatchCache,
		Shards:             gates.Enabled(features.ShardedListAndWatch),
		NoWatchLists:       gates.Off(features.WatchList),
		CompressWatchLists: gates.Enabled(features.WatchListCompression),
		Past:               a.history.Engine(),
		Extensions:         cfg.Extensions(), Namespaces: b.namespaces, Rights: modes.Rights{Set: a.authorizers},
		StoreCBOR: gates.Enabled(features.CBORServingAndStorage),
	})
	return nil
}

// kinds makes what is served: kinds that are built in, those of definitions, those of other servers.
func (a *assembly) kinds(ctx context.Context) (err error) {
	b, cfg, on := a.b, a.b.cfg, a.b.process
	if a.services, err = b.allocation(ctx); err != nil {
		return err
	}
	d := b.deps(a.authorizers, a.authenticators, b.tokenIssuer(a.keys, a.authorizers), a.services)
	if d.Chosen, err = b.chosen(); err != nil {
		return err
	}
	a.chosen, a.resources = d.Chosen, builtin.Resources(d)
	if err := d.Chosen.Wrong(); err != nil {
		return err
	}
	if cfg.WarnWorkloads && len(cfg.Controllers) > 0 {
		builtin.WarnUnattended(a.resources, b.objects, on.Clock)
	}
	a.live.Begin(catalog.Builtin(a.engine, a.resources, d.Chosen.Serves)...)
	a.custom = b.customResources(a.engine)
	a.opened.Add(a.custom.Close)
	if err := b.ownKinds(a.engine, a.custom); err != nil {
		return err
	}
	a.ending = listener.NewShutdown(on.Root, a.cut, on.Clock, b.log)
	a.aggregator = b.aggregator(a.keys, a.custom, a.ending.Gone)
	a.opened.Add(a.aggregator.Close)
	a.others, err = b.peers(a.engine, a.keys, a.ending.Gone)
	return err
}

// state makes what tells of all this: health, the flight recorder's kinds, findings, backups, documents.
func (a *assembly) state(context.Context) (err error) {
	b, on := a.b, a.b.process
	a.judgeHealth()
	a.flow, a.queueing = b.flowControl()
	a.database = &online.Server{Process: on, Plane: b.cfg, Port: b.socket != nil, History: a.history, Registry: b.metrics.Registry()}
	if a.backups, err = a.database.Scheduler(a.opened); err != nil {
		return err
	}
	a.identity = b.identity()
	a.parts = b.parts(a.custom, a.flow)
	a.found = b.findings(a.recorder, a.parts, a.certificates, a.backups, a.flow, a.started.NotReady, a.identity)
	reading := recordedparts.Resources(a.recorder, a.authorizers, b.objects, a.parts, a.found.Findings)
	if b.cfg.Extensions().Has(extensions.History) {
		reading = append(reading, a.history.Resources(b.objects)...)
	}
	writing, copies := a.from.copies(a.authorize)
	a.forks, reading = copies, append(reading, writing...)
	a.live.Begin(catalog.Builtin(a.engine, reading, func(schema.GroupVersionResource) bool { return true })...)
	a.aggregator.Local(a.live.Now().GroupVersions())
	a.docs, err = b.openAPI(a.aggregator, reading)
	return err
}

// judgeHealth makes the checks of /livez, /readyz and /healthz.
func (a *assembly) judgeHealth() {
	b := a.b
	a.steps = &controlplane.Milestones{}
	a.health = controlplane.Health(b.log, a.store, a.steps, a.ending.Stopping, b.metrics.Checked, b.process.Clock, b.cfg.LivezGrace,
		controlplane.EtcdTimeouts{Health: cmp.Or(b.cfg.EtcdHealthTimeout, config.DefaultEtcdTimeout), Ready: cmp.Or(b.cfg.EtcdReadyTimeout, config.DefaultEtcdTimeout)},
		slices.Concat(a.aggregator.Checks(), a.sealed.Started(), a.steps.Gated(b.cfg.Gates()), a.others.roster.Checks())...)
	a.started = &debug.Health{Ready: a.health.Ready}
	plugins := a.sealed.Checks() // a restart helps no plugin, and nobody waits for one
	a.health.Healthz, a.health.Ready = append(a.health.Healthz, plugins...), append(a.health.Ready, plugins...)
	a.notReady = a.health.NotReady
}

// requests makes what every request passes, and opens the door to it.
func (a *assembly) requests(ctx context.Context) error {
	b, cfg, on := a.b, a.b.cfg, a.b.process
	gates, measured := cfg.Gates(), b.metrics
	a.opened.Add(a.kubelets.Close) // closed before the audit log, which records their end
	traced, err := on.Tracing(ctx, a.opened)
	if err != nil {
		return err
	}
	a.space = a.database.Space()
	page, pageFilter := b.console(a.recorder, a.space != nil)
	root := (&root{
		catalog: a.live, discovery: b.discovery(a.aggregator, a.others), openapi: a.docs, health: a.health,
		metrics: measured.Handler(on.Root.Profiling, a.shape), slis: measured.SLIs(), issuer: a.keys.Discovery, profiling: on.Root.Profiling, flow: a.flow,
		zpages: b.zpages(), version: cfg.VersionInfo(), verbosity: on.Verbosity,
		rewriter: a.sealed.Rewriter(b.objects, on.Clock), snapshots: a.database.Snapshots(), space: a.space, console: page, forks: a.forks,
		exports: b.seams.Exports, transfers: b.seams.Transfers,
	}).begin()
	versions, untold := controlplane.TellStorageVersions(gates, &controlplane.StorageVersions{Raw: b.objects, Client: b.itself,
		Server: controlplane.IdentityName(on.Hostname()), Resources: a.resources, Serves: a.chosen.Serves, Now: on.Clock.Now})
	a.versions = versions
	var impersonations chain.ImpersonationObserver
	legacy := gates.Off(features.ConstrainedImpersonation)
	if !legacy { // these metrics came with the gate
		impersonations = metrics.NewImpersonation(measured.Registry())
	}
	a.made.handler = chain.New(chain.Config{
		Handler: root, Page: root.pages.Filters, CBOR: gates.Enabled(features.CBORServingAndStorage), Extensions: cfg.Extensions(),
		Authenticator: authn.Measured(page.Authenticator(inprocess.Authenticator{Next: a.authenticators.Authenticator()}), measured.Registry(), on.Clock),
		Authorizer:    authz.Measured(page.Authorizer(a.authorizers), measured.Registry(), on.Clock),
		Impersonator:  a.authorizers, Impersonations: impersonations, LegacyImpersonation: legacy,
		WriteError: engine.RefuseRequest, Log: b.log, Clock: on.Clock, OnPanic: measured.Panicked,
		RequestTimeout: cfg.RequestTimeout, MaxReading: cfg.MaxReadOnlyInFlight, MaxWriting: cfg.MaxMutatingInFlight,
		CORS: cfg.CORSOrigins(), OriginCheck: cfg.WebSocketOriginCheck, HSTS: cfg.HSTSDirectives, ProxyHeaders: cfg.ProxyHeaders(),
		InFlight: a.ending.InFlight, Watches: a.ending.Watches, SendRetryAfter: a.ending.RetryAfter(),
		Auditor: a.from.audits, FlowControl: a.queueing, Metrics: measured.Filter, Recorder: a.recording, OnFilter: measured.Filtered, Tracing: traced, OwnRequests: measured.Self,
		Console: pageFilter, Untold: untold, Observe: b.seams.Observe, Intervene: b.seams.Intervene,
		LogAccess: on.Verbosity.LogsAccess, GoawayChance: cfg.GoawayChance, Random: mathrand.Float64,
	})
	b.door.Open(a.made.handler)
	return nil
}

// background makes what runs beside requests.
func (a *assembly) background(ctx context.Context) (err error) {
	b := a.b
	if a.first, err = b.firstObjects(a.engine, a.keys, a.services, a.aggregator, a.identity, a.versions, a.steps, a.health.NotReady, a.policy); err != nil {
		return err
	}
	signing := a.keys
	if b.seams.origin.rehearses() {
		signing = a.keys.Public()
	}
	a.controllers = b.controllers(signing, a.docs)
	a.made.work, err = b.work(a.runnables)
	return err
}

// finish makes the server of its parts, and what serves its port.
func (a *assembly) finish(context.Context) (err error) {
	b, s := a.b, a.made
	s.source, s.rootCA, s.ending, s.notReady = a.from, a.keys.RootCA, a.ending, a.started.NotReady
	if a.keys.Files != nil {
		s.files = *a.keys.Files
	}
	s.closers = *a.opened
	if b.socket == nil {
		return nil
	}
	front := s.handler
	if b.seams.Front != nil {
		front = b.seams.Front(front)
	}
	s.listener, err = listener.New(listener.Config{Root: b.root, Port: b.socket, Handler: front, Keys: a.keys, Requests: s.requests,
		RequestTimeout: b.cfg.RequestTimeout, Shown: b.seams.Certificate, HandshakeFailed: b.metrics.HandshakeFailed, Log: b.log})
	return err
}
