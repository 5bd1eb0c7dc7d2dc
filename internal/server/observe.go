package server

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/kanzen-io/kanzen/internal/access/audit"
	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/chain/debug"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/observe/tracing"
	"github.com/kanzen-io/kanzen/internal/wire/egress"
)

// This file wires observability.

// traces sends the spans of sampled requests to the collector.
type traces struct {
	*tracing.Tracing // nil: nothing is traced
	log              *slog.Logger
}

// tracing connects to the collector of traces, if there is one.
func (b *base) tracing(ctx context.Context) (*traces, error) {
	t := &traces{log: b.log}
	if b.root.TracingConfigFile == "" {
		return t, nil
	}
	c, err := tracing.Load(b.root.TracingConfigFile)
	if err == nil {
		t.Tracing, err = tracing.New(ctx, c, b.process.Hostname(), b.process.Egress.Dial(egress.ControlPlane))
	}
	if err != nil {
		return nil, fmt.Errorf("--tracing-config-file: %w", err)
	}
	return t, nil
}

// closeTimeout bounds how long shutting down waits for the collector of traces.
const closeTimeout = 3 * time.Second

// close sends the remaining spans. An unreachable collector is not a failure of the server.
func (t *traces) close() error {
	if t.Tracing == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := t.Close(ctx); err != nil {
		t.log.Warn("traces were lost", "error", err)
	}
	return nil
}

// filter returns the chain's filter that makes the spans of requests, nil if nothing is traced.
func (t *traces) filter() chain.Filter {
	if t.Tracing == nil {
		return nil
	}
	return t.Filter
}

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
