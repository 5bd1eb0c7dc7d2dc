package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kanzen-io/kanzen/internal/access/authn/methods"
	"github.com/kanzen-io/kanzen/internal/access/authz/modes"
	"github.com/kanzen-io/kanzen/internal/api/aggregator"
	"github.com/kanzen-io/kanzen/internal/api/crd"
	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/chain/debug"
	"github.com/kanzen-io/kanzen/internal/chain/flowcontrol"
	"github.com/kanzen-io/kanzen/internal/engine/admission/webhook"
	"github.com/kanzen-io/kanzen/internal/engine/forks"
	"github.com/kanzen-io/kanzen/internal/observe/findings"
	"github.com/kanzen-io/kanzen/internal/observe/recorder"
	"github.com/kanzen-io/kanzen/internal/process/keys"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/server/controlplane"
	"github.com/kanzen-io/kanzen/internal/store"
)

// work is everything that runs beside requests, in the order in which it starts.
// Each part needs the parts above it, and is stopped before them.
type work struct {
	// storage follows the log, which every read waits for.
	storage []task
	// indexes follow the log: authorizers and other state that requests need.
	indexes []task
	// bootstrap creates the first objects of a cluster.
	bootstrap func(ctx context.Context) error
	// judged is closed when requests can be authorized.
	judged <-chan struct{}
	// service keeps this server among the endpoints of the kubernetes service.
	// It is stopped first, and waited for.
	service task
	// upkeep begins once the first objects exist.
	upkeep []task
	// controllers act through all of the above.
	controllers func(ctx context.Context)
}

// task runs until its context ends. A task with a name is restarted after a
// panic; the others guard their own loops.
type task struct {
	name string
	run  func(ctx context.Context) error
}

// runnables are the parts of a control plane that run.
type runnables struct {
	forks          *forks.Forks // nil: there are none
	store          *store.Cluster
	others         peering
	notReady       func(context.Context) error
	authorizers    *modes.Set
	authenticators *methods.Set
	keys           *keys.Keys
	custom         *crd.Server
	aggregator     *aggregator.Server
	flow           *flowcontrol.Controller // nil: requests are only counted
	services       *services
	first          *controlplane.Bootstrapper
	steps          *controlplane.Milestones
	sealed         sealed
	recorded       flight
	parts          recorder.Parts
	found          *findings.Engine       // nil: there is no flight recorder
	backups        *snapshot.Scheduler    // nil: none are scheduled
	space          *snapshot.SpaceHandler // nil: the database is elsewhere
	guardrails     *webhook.Guardrails
	history        *history // nil: none is kept
}

func (b *base) work(p runnables) (work, error) {
	if b.seams.origin != nil {
		return b.forkedWork(p), nil
	}
	upkeep, err := b.flowUpkeep()
	if err != nil {
		return work{}, err
	}
	after := b.process.Clock.After
	w := work{
		storage: []task{{"", p.store.Run}, {"", b.process.Watch}},
		bootstrap: func(ctx context.Context) error {
			if err := p.keys.Unshared(ctx); err != nil {
				return err
			}
			return b.bootstrap(ctx, p.first)
		},
		judged: p.authorizers.RBAC.Ready(),
		service: task{"kubernetes service", quietly(func(ctx context.Context) {
			var left sync.WaitGroup
			left.Go(func() { b.keepPeering(ctx, p.others, p.notReady) })
			p.first.Service.Run(ctx)
			left.Wait()
		})},
	}
	if p.sealed.Encryption != nil {
		w.storage = append(w.storage, task{"", quietly(func(ctx context.Context) { p.sealed.Run(ctx, p.store.Recheck) })})
	}
	if p.recorded.Recorder != nil && p.recorded.Disk != nil {
		w.storage = append(w.storage, task{"flight recorder", p.recorded.Disk.Run}, task{"", quietly(b.load(p.recorded.Recorder))})
	}
	if p.recorded.Recorder != nil {
		w.storage = append(w.storage, task{"flight recorder", quietly(func(ctx context.Context) { p.recorded.KeepSeries(ctx, p.parts) })})
	}
	if every := b.root.EtcdCompactionInterval; every > 0 {
		w.storage = append(w.storage, task{"compaction", func(ctx context.Context) error { return p.store.RunCompaction(ctx, every) }})
	}
	w.indexes = []task{
		{"", quietly(p.authorizers.Run)},
		{"", quietly(p.authenticators.Run)},
		{"", p.custom.Run},
		{"", p.aggregator.Run},
		{"", quietly(reached(p.authorizers.RBAC.Ready(), &p.steps.Authorizer))},
		{"", quietly(reached(p.custom.Ready(), &p.steps.Definitions))},
	}
	if p.others.roster != nil {
		w.indexes = append(w.indexes, task{"", quietly(p.others.roster.Run)})
	}
	if p.keys.External != nil {
		w.indexes = append(w.indexes, task{"external signer of tokens", quietly(func(ctx context.Context) { p.keys.External.Run(ctx) })})
	}
	for _, d := range b.directories {
		w.indexes = append(w.indexes, task{"manifests of " + d.Plugin, quietly(d.Run)})
	}
	if p.flow == nil {
		p.steps.FlowConsumer.Set()
	} else {
		w.indexes = append(w.indexes, task{"", b.flowConsumer(p.flow, p.steps.FlowConsumer.Set).Run})
	}
	if path := b.root.DebugSocketPath; path != "" {
		w.indexes = append(w.indexes, task{"", func(ctx context.Context) error { return debug.ServeSocket(ctx, path, b.process.Verbosity) }})
	}
	w.storage = append(w.storage, task{"expiry of certificates", quietly(func(ctx context.Context) { b.watchCertificates(ctx, p.keys) })})
	w.upkeep = []task{
		{"repair of service addresses", p.services.repair.Run},
		{"default range of service addresses", quietly(func(ctx context.Context) { p.first.Range.Run(ctx, after) })},
		{"first objects", quietly(func(ctx context.Context) {
			p.first.Keep(ctx, after, func(err error) { b.log.Warn("could not make one of the first objects, trying again", "error", err) })
		})},
		{"lease of this server", quietly(func(ctx context.Context) { p.first.Identity.Run(ctx, after) })},
		{"authentication of extension servers", quietly(func(ctx context.Context) {
			p.first.AuthInfo.Run(ctx, after, func(err error) {
				b.log.Warn("could not tell extension servers how users are known", "error", err)
			})
		})},
		{"flow control configuration", quietly(upkeep.Run)},
		{"dangling flow schemas", b.dangling().Run},
		{"breakers of webhooks", quietly(p.guardrails.Run)},
		{"", quietly(p.aggregator.Register)},
	}
	w.upkeep = append(w.upkeep, p.history.work(b.log)...) // the tree of the history is opened once the server serves
	if p.forks != nil {
		w.upkeep = append(w.upkeep, task{"forks", quietly(p.forks.Run)})
	}
	if p.space != nil && p.recorded.Recorder != nil && b.root.Console {
		w.upkeep = append(w.upkeep, task{"growth of the database", quietly(func(ctx context.Context) { p.space.Keep(ctx, b.process.Clock, b.databaseSize) })})
	}
	if p.backups != nil {
		w.upkeep = append(w.upkeep, task{"scheduled snapshots", quietly(p.backups.Run)})
	}
	if p.found != nil {
		w.upkeep = append(w.upkeep, task{"findings", quietly(p.found.Run)})
	}
	return w, nil
}

// quietly adapts a func that returns no error.
func quietly(f func(ctx context.Context)) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		f(ctx)
		return nil
	}
}

// reached sets a milestone when ready is closed.
func reached(ready <-chan struct{}, m *controlplane.Milestone) func(ctx context.Context) {
	return func(ctx context.Context) {
		select {
		case <-ready:
			m.Set()
		case <-ctx.Done():
		}
	}
}

// embeddedPatience is how long the embedded etcd may refuse the first objects: a disk can be slow, but nothing else can
// come back.
const embeddedPatience = time.Minute

// bootstrap creates the first objects. It tries again while etcd or a KMS
// plugin cannot be reached.
func (b *base) bootstrap(ctx context.Context, first *controlplane.Bootstrapper) error {
	begin := b.process.Clock.Now()
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		attempt, cancel := context.WithTimeout(ctx, 30*time.Second)
		err := first.Run(attempt)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		more, err := firstOf(err)
		if b.cfg.EncryptionConfigFile == "" && !b.process.Quorum() && // a KMS plugin or a quorum may come later
			b.process.Clock.Since(begin) > embeddedPatience {
			return fmt.Errorf("make the first objects: %w (and %d errors more)", err, more)
		}
		b.log.Warn("could not make the first objects, trying again", "error", err, "errorsMore", more)
		select {
		case <-b.process.Clock.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// firstOf returns the first of the errors that an error holds, and how many more there are.
func firstOf(err error) (more int, first error) {
	var many interface{ Unwrap() []error }
	if !errors.As(err, &many) || len(many.Unwrap()) == 0 {
		return 0, err
	}
	return len(many.Unwrap()) - 1, many.Unwrap()[0]
}

// group is tasks that run together and are stopped together.
type group struct {
	ctx    context.Context
	cancel context.CancelFunc
	wait   sync.WaitGroup
	guard  *guard.Guard
	failed chan<- error
}

// newGroup makes a group whose tasks act as the server itself. failed receives
// the error of a task that fails.
func newGroup(ctx context.Context, g *guard.Guard, failed chan<- error) *group {
	made := &group{guard: g, failed: failed}
	made.ctx, made.cancel = context.WithCancel(request.WithUser(ctx, controlplane.Itself()))
	return made
}

func (g *group) start(tasks ...task) {
	for _, t := range tasks {
		g.wait.Go(func() {
			if t.name != "" {
				g.guard.Keep(g.ctx, t.name, func(ctx context.Context) { _ = t.run(ctx) })
				return
			}
			if err := t.run(g.ctx); err != nil && g.ctx.Err() == nil && !errors.Is(err, context.Canceled) {
				select {
				case g.failed <- err:
				default: // one error is enough to stop the server
				}
			}
		})
	}
}

// stop ends the tasks and returns when they have ended.
func (g *group) stop() {
	g.cancel()
	g.wait.Wait()
}
