package server

import (
	"context"

	"github.com/kanzen-io/kanzen/internal/access/audit"
	"github.com/kanzen-io/kanzen/internal/api/crd"
	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
	"github.com/kanzen-io/kanzen/internal/base/space"
	"github.com/kanzen-io/kanzen/internal/base/version"
	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/chain/debug"
	"github.com/kanzen-io/kanzen/internal/chain/flowcontrol"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/observe/console"
	"github.com/kanzen-io/kanzen/internal/observe/findings"
	"github.com/kanzen-io/kanzen/internal/observe/recorder"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/parts"
	"github.com/kanzen-io/kanzen/internal/process/keys"
	"github.com/kanzen-io/kanzen/internal/server/controlplane"
)

// This file wires observability.

// auditor makes what makes the audit events of requests, nil if nothing does.
func (b *base) auditor() (*audit.Auditor, error) {
	switch o := b.seams.origin; {
	case o != nil:
		return o.auditor(), nil
	case b.seams.Auditor != nil:
		return b.seams.Auditor(), nil
	}
	return b.process.Auditor(b.metrics.Register, b.guard, b.opened) // closed when no request is served any more
}

// zpages are /statusz and /flagz, as far as their feature gates are on.
func (b *base) zpages() *debug.Zpages {
	gates := b.cfg.Gates()
	return &debug.Zpages{
		Started: b.process.Clock.Now(), Clock: b.process.Clock, Flags: b.root.Flags, WriteError: engine.RefuseRequest,
		Statusz: gates.Enabled(features.ComponentStatusz), Flagz: gates.Enabled(features.ComponentFlagz),
	}
}

// recording is the filter that records requests, and what the engine tells of writes; nil: nobody wants to know. In a fork that is there for
// another server's request, that is told what requests have changed.
func (b *base) recording(r *recorder.Recorder) (filter chain.Filter, wrote func(context.Context, engine.Written)) {
	if o := b.seams.origin; o != nil && o.options.Changes != nil {
		return recorder.TellChanges(o.options.Changes), recorder.Wrote
	}
	if r != nil {
		return r.Filter, recorder.Wrote
	}
	return nil, nil
}

// parts tells the state of the parts of this control plane, and of those below it.
func (b *base) parts(custom *crd.Server, flow *flowcontrol.Controller) recorder.Parts {
	p := parts.Of(b.objects.Store, b.queues, custom, flow)
	if b.seams.Planes != nil {
		p.Planes, p.PlaneServers = b.seams.Planes.Stats, b.seams.Planes.Servers
	}
	return p
}

// findings makes what looks for what is wrong; without a flight recorder there is nothing.
func (b *base) findings(r *recorder.Recorder, p recorder.Parts, certificates func() []keys.NamedCertificate, backups *snapshot.Scheduler, flow *flowcontrol.Controller,
	notReady func(context.Context) error, identity *controlplane.Identity) *findings.Engine {
	if r == nil {
		return nil
	}
	c := findings.Config{
		Recorder: r, Parts: p, Objects: b.objects, NotReady: notReady, Servers: identity.Servers,
		Certificates: func() []findings.Certificate { return keys.Faulty(certificates(), b.process.Clock.Now()) },
		Directories:  b.process.Directories(), Disk: space.Of, Report: findings.AsEvents(b.itself, b.process.Clock, b.log),
		Clock: b.process.Clock, Guard: b.guard,
	}
	if flow != nil {
		c.Levels = flow.Levels
	}
	if b.seams.Planes != nil {
		c.Fleet = b.seams.Planes.State
	}
	if backups != nil {
		c.Snapshots = backups.State
	}
	e := findings.New(c)
	b.metrics.Register(e)
	return e
}

// console makes the page at /console. It shows what the flight recorder knows, so without one there is none.
func (b *base) console(r *recorder.Recorder, space bool) (*console.Console, chain.Filter) {
	if !b.root.Console || r == nil {
		return nil, nil
	}
	c := console.Config{Clock: b.process.Clock, WriteError: engine.RefuseRequest, Version: "kanzen " + version.Kanzen + ", Kubernetes " + b.cfg.VersionInfo().GitVersion}
	if space {
		c.Space = snapshot.SpacePath
	}
	page := console.New(c)
	return page, page.Filter
}

// consolePaths are those of the page; none if there is none.
func (b *base) consolePaths() []string {
	if !b.root.Console || b.root.FlightRecorderMemory == 0 {
		return nil
	}
	return console.Paths()
}
