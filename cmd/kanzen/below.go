package main

import (
	"context"
	"log/slog"

	"github.com/kanzen-io/kanzen/internal/config"
	"github.com/kanzen-io/kanzen/internal/planes"
	"github.com/kanzen-io/kanzen/internal/process"
	"github.com/kanzen-io/kanzen/internal/server"
)

// below are the control planes below the one that is served (--planes); without them its methods do nothing.
type below struct {
	*planes.Fleet
	cancel context.CancelFunc
	done   chan struct{}
}

func newBelow(cfg *config.Config, on *process.Process) *below {
	if !cfg.Planes {
		return &below{}
	}
	return &below{Fleet: planes.New(cfg, on), done: make(chan struct{})}
}

func (b *below) seams() server.Seams {
	if b.Fleet == nil {
		return server.Seams{}
	}
	return server.Seams{Front: b.Front}
}

func (b *below) start(root *server.Plane, log *slog.Logger) {
	if b.Fleet == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	go func() {
		defer close(b.done)
		if err := b.Run(ctx, root); err != nil && ctx.Err() == nil {
			log.Error("no planes are served", "error", err)
		}
	}()
}

func (b *below) stop() error {
	if b.Fleet == nil {
		return nil
	}
	err := b.Stop()
	b.cancel()
	<-b.done
	return err
}
