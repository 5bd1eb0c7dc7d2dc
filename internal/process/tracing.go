package process

import (
	"context"
	"fmt"
	"time"

	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/observe/tracing"
	"github.com/kanzen-io/kanzen/internal/wire/egress"
)

// tracingClose bounds how long shutting down waits for the collector of traces.
const tracingClose = 3 * time.Second

// Tracing connects to the collector of traces, and returns the filter that makes the spans of requests; nil: nothing is traced. What it
// opens is added to closers, and sends the remaining spans: an unreachable collector is not a failure of the server.
func (p *Process) Tracing(ctx context.Context, closers *Closers) (chain.Filter, error) {
	root := p.Root
	if root.TracingConfigFile == "" {
		return nil, nil
	}
	c, err := tracing.Load(root.TracingConfigFile)
	var t *tracing.Tracing
	if err == nil {
		t, err = tracing.New(ctx, c, p.Hostname(), p.Egress.Dial(egress.ControlPlane))
	}
	if err != nil {
		return nil, fmt.Errorf("--tracing-config-file: %w", err)
	}
	closers.Add(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), tracingClose)
		defer cancel()
		if err := t.Close(ctx); err != nil {
			p.Log.Warn("traces were lost", "error", err)
		}
		return nil
	})
	return t.Filter, nil
}
