package server

import (
	"context"
	"slices"
	"sync"

	"github.com/kanzen-io/kanzen/internal/access/authn/methods"
	"github.com/kanzen-io/kanzen/internal/access/authz/modes"
	"github.com/kanzen-io/kanzen/internal/api/aggregator"
	"github.com/kanzen-io/kanzen/internal/api/crd"
	"github.com/kanzen-io/kanzen/internal/backup/online"
	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/chain/debug"
	"github.com/kanzen-io/kanzen/internal/chain/flowcontrol"
	"github.com/kanzen-io/kanzen/internal/controllers"
	"github.com/kanzen-io/kanzen/internal/engine/admission/manifest"
	"github.com/kanzen-io/kanzen/internal/engine/admission/webhook"
	"github.com/kanzen-io/kanzen/internal/engine/forks"
	"github.com/kanzen-io/kanzen/internal/observe/findings"
	"github.com/kanzen-io/kanzen/internal/observe/recorder"
	"github.com/kanzen-io/kanzen/internal/process/encryption"
	"github.com/kanzen-io/kanzen/internal/process/history"
	"github.com/kanzen-io/kanzen/internal/process/keys"
	"github.com/kanzen-io/kanzen/internal/server/controlplane"
	"github.com/kanzen-io/kanzen/internal/store"
)

// work is everything that runs beside requests, in the order in which it starts.
// Each part needs the parts above it, and is stopped before them.
type work struct {
	// storage follows the log, which every read waits for.
	storage []guard.Task
	// indexes follow the log: authorizers and other state that requests need.
	indexes []guard.Task
	// bootstrap creates the first objects of a cluster.
	bootstrap func(ctx context.Context) error
	// judged is closed when requests can be authorized.
	judged <-chan struct{}
	// service keeps this server among the endpoints of the kubernetes service.
	// It is stopped first, and waited for.
	service guard.Task
	// upkeep begins once the first objects exist.
	upkeep []guard.Task
	// controllers act through all of the above.
	controllers func(ctx context.Context)
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
	certificates   func() []keys.NamedCertificate
	custom         *crd.Server
	aggregator     *aggregator.Server
	flow           *flowcontrol.Controller // nil: requests are only counted
	first          *controlplane.Bootstrapper
	steps          *controlplane.Milestones
	sealed         encryption.Sealed
	recorder       *recorder.Recorder // nil: there is none
	parts          recorder.Parts
	found          *findings.Engine // nil: there is no flight recorder
	database       *online.Server
	backups        *snapshot.Scheduler    // nil: none are scheduled
	space          *snapshot.SpaceHandler // nil: the database is elsewhere
	guardrails     *webhook.Guardrails
	directories    []*manifest.Directory
	history        *history.History // nil: none is kept
	controllers    controllers.Config
}

func (b *base) work(p runnables) (work, error) {
	w := work{
		storage:     []guard.Task{{Run: p.store.Run}},
		judged:      p.authorizers.RBAC.Ready(),
		controllers: func(ctx context.Context) { controllers.Run(ctx, p.controllers, b.cfg.Controllers) },
		indexes: []guard.Task{
			guard.Quiet("", p.authorizers.Run),
			{Run: p.custom.Run},
			guard.Quiet("", p.steps.Authorizer.SetAfter(p.authorizers.RBAC.Ready())),
			guard.Quiet("", p.steps.Definitions.SetAfter(p.custom.Ready())),
		},
	}
	if p.flow == nil {
		p.steps.FlowConsumer.Set()
	} else {
		w.indexes = append(w.indexes, guard.Task{Run: b.flowConsumer(p.flow, p.steps.FlowConsumer.Set).Run})
	}
	for _, d := range p.directories {
		w.indexes = append(w.indexes, guard.Quiet("manifests of "+d.Plugin, d.Run))
	}
	if o := b.seams.origin; o != nil {
		// A fork is nobody's server: it has no lease, no addresses and no first objects to keep.
		w.bootstrap = func(context.Context) error { p.steps.Reach(); return nil }
		w.service = guard.Quiet("", func(ctx context.Context) { <-ctx.Done() })
		if o.options.Lasting {
			w.upkeep = []guard.Task{{Name: "dangling flow schemas", Run: b.dangling().Run}}
		}
		return w, nil
	}
	upkeep, err := b.flowUpkeep()
	if err != nil {
		return work{}, err
	}
	w.bootstrap = func(ctx context.Context) error {
		if err := p.keys.Unshared(ctx); err != nil {
			return err
		}
		return p.first.Begin(ctx, b.cfg.EncryptionConfigFile == "" && !b.process.Quorum()) // a KMS plugin or a quorum may come later
	}
	w.service = guard.Quiet("kubernetes service", func(ctx context.Context) {
		var left sync.WaitGroup
		left.Go(func() { p.others.address.Keep(ctx, p.notReady, b.process.Clock, b.log) })
		p.first.Service.Run(ctx)
		left.Wait()
	})
	w.storage = append(slices.Concat(w.storage, p.recorder.Tasks(p.parts), p.sealed.Tasks(p.store.Recheck)), guard.Task{Run: b.process.Watch},
		guard.Quiet("expiry of certificates", func(ctx context.Context) { keys.WatchExpiry(ctx, p.certificates, b.process.Clock, b.log) }))
	if every := b.root.EtcdCompactionInterval; every > 0 {
		w.storage = append(w.storage, guard.Task{Name: "compaction", Run: func(ctx context.Context) error { return p.store.RunCompaction(ctx, every) }})
	}
	w.indexes = append(w.indexes, guard.Quiet("", p.authenticators.Run), guard.Task{Run: p.aggregator.Run})
	if p.others.roster != nil {
		w.indexes = append(w.indexes, guard.Quiet("", p.others.roster.Run))
	}
	if p.keys.External != nil {
		w.indexes = append(w.indexes, guard.Quiet("external signer of tokens", func(ctx context.Context) { p.keys.External.Run(ctx) }))
	}
	if path := b.root.DebugSocketPath; path != "" {
		w.indexes = append(w.indexes, guard.Task{Run: func(ctx context.Context) error { return debug.ServeSocket(ctx, path, b.process.Verbosity) }})
	}
	w.upkeep = append(p.first.Upkeep(),
		guard.Quiet("flow control configuration", upkeep.Run),
		guard.Task{Name: "dangling flow schemas", Run: b.dangling().Run},
		guard.Quiet("breakers of webhooks", p.guardrails.Run),
		guard.Quiet("", p.aggregator.Register))
	w.upkeep = append(w.upkeep, p.history.Tasks(b.log)...) // the tree of the history is opened once the server serves
	if p.forks != nil {
		w.upkeep = append(w.upkeep, guard.Quiet("forks", p.forks.Run))
	}
	if p.space != nil && p.recorder != nil && b.root.Console {
		w.upkeep = append(w.upkeep, guard.Quiet("growth of the database", func(ctx context.Context) { p.space.Keep(ctx, b.process.Clock, p.database.DatabaseSize) }))
	}
	if p.backups != nil {
		w.upkeep = append(w.upkeep, guard.Quiet("scheduled snapshots", p.backups.Run))
	}
	if p.found != nil {
		w.upkeep = append(w.upkeep, guard.Quiet("findings", p.found.Run))
	}
	return w, nil
}
