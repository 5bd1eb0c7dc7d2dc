package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kanzen-io/kanzen/internal/process"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/server"
	"github.com/kanzen-io/kanzen/internal/server/planes"
)

// below are the control planes below the one that is served (--planes); without them its methods do nothing.
type below struct {
	*planes.Fleet
	cancel context.CancelFunc
	done   chan struct{}
}

func newBelow(cfg *config.Plane, on *process.Process) *below {
	if !on.Root.Planes {
		return &below{}
	}
	return &below{Fleet: planes.New(cfg, on, server.Seams{}), done: make(chan struct{})}
}

func (b *below) seams() server.Seams {
	if b.Fleet == nil {
		return server.Seams{}
	}
	return server.Seams{Front: b.Front, Certificate: b.Certificate, Planes: b, Transfers: b.ServeTransfer, Admit: b.Admit()}
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

// planeWait is how long a plane that was just created is waited for.
const planeWait = 30 * time.Second

// planeKubeconfig returns the kubeconfig of a plane's administrator, which the server keeps in a secret.
func planeKubeconfig(ctx context.Context, adminPath, name string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, planeWait)
	defer cancel()
	c, err := clientcmd.BuildConfigFromFlags("", adminPath)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", adminPath, oneLine(err))
	}
	transport, err := rest.TransportFor(c)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", adminPath, oneLine(err))
	}
	client := planes.NewClient(transport, c.Host)
	for {
		data, state, err := client.Kubeconfig(ctx, name)
		switch {
		case apierrors.IsNotFound(err):
			return nil, fmt.Errorf("--plane: the server at %s has no plane %q", c.Host, name)
		case err != nil && ctx.Err() == nil:
			return nil, fmt.Errorf("--plane: %s", oneLine(err))
		case data != nil:
			return data, nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, fmt.Errorf("--plane: %s is not ready: %s", name, state)
		}
	}
}
