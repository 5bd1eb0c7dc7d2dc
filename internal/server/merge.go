package server

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/bundle"
	"github.com/kanzen-io/kanzen/internal/engine/forks"
	"github.com/kanzen-io/kanzen/internal/engine/forks/merge"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// merges returns the resource by which forks are merged. s and copies return this server and its forks, once they are assembled; may says
// whether the user of a request may do something.
func (b *base) merges(s func() *server, copies func() *forks.Forks, may func(context.Context, *request.Info) error) []*engine.Resource {
	if !b.servesForks() {
		return nil
	}
	return merge.Resources(merge.Deps{
		Use: func(ctx context.Context, name string) (merge.Fork, func(), error) {
			// A merge tells what was changed in the fork, as the fork's own path does, and reads of it what can be read below that.
			for _, below := range []string{"", "/*"} {
				if err := may(ctx, &request.Info{Path: forks.Path + "/" + name + below, Verb: "get"}); err != nil {
					return nil, nil, err
				}
			}
			p, done, err := copies().Use(ctx, name)
			if err != nil {
				return nil, nil, err
			}
			return mergeable{bundled{p.(*Fork), s()}}, done, nil
		},
		Carry: b.bundling(s).Carry,
	})
}

// mergeable is a fork that is merged.
type mergeable struct{ bundled }

// Head is part of merge.Fork. A fork that was deleted meanwhile knows its kinds no more, and would seem to have changed nothing.
func (f mergeable) Head(ctx context.Context) (int64, error) {
	if f.serving.Load() == nil {
		return 0, apierrors.NewServiceUnavailable("the fork was deleted while it was merged")
	}
	return f.Log.Head(ctx)
}

// Cut is part of merge.Fork.
func (f mergeable) Cut() *store.Cut { return f.Log.Cut() }

// Began is part of merge.Fork.
func (f mergeable) Began(ctx context.Context) (merge.Plane, func() error, error) {
	began, err := f.Fork.Began(ctx)
	return began, began.Stop, err
}

var _ bundle.Fork = bundled{}
