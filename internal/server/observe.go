package server

import (
	"github.com/kanzen-io/kanzen/internal/access/audit"
	"github.com/kanzen-io/kanzen/internal/chain/debug"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/features"
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
