package server

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/bundle"
	"github.com/kanzen-io/kanzen/internal/request/extensions"
)

// bundles returns the resource by which several objects are written as one; s returns this server, once it is assembled.
func (b *base) bundles(s func() *server) []*engine.Resource {
	if !b.cfg.Extensions().Has(extensions.Bundles) || b.seams.origin != nil {
		return nil
	}
	return bundle.Resources(b.bundling(s))
}

// bundling is what bundles need of the server.
func (b *base) bundling(s func() *server) bundle.Deps {
	return bundle.Deps{
		Fork: func(ctx context.Context, o bundle.ForkOptions) (bundle.Fork, error) {
			f, err := s().fork(ctx, ForkOptions{Rehearsal: o.Rehearsal, Audit: o.Audit, Changes: o.Changes})
			if err != nil {
				return nil, err
			}
			if err := f.Start(ctx); err != nil {
				return nil, err
			}
			return bundled{f, s()}, nil
		},
		Audit: func(events ...*auditv1.Event) { s().record(events...) },
	}
}

// bundled is a fork for a bundle.
type bundled struct {
	*Fork
	of *server
}

// Find is part of bundle.Fork.
func (f bundled) Find(kind schema.GroupVersionKind) (gvr schema.GroupVersionResource, namespaced, ok bool) {
	s := f.serving.Load()
	if s == nil {
		return gvr, false, false
	}
	for _, r := range s.base.objects.Now().Kind(kind) {
		return r.WithVersion(kind.Version), r.Namespaced, true
	}
	return gvr, false, false
}

// Adoptable is part of bundle.Fork.
func (f bundled) Adoptable(ctx context.Context) error {
	return f.of.base.objects.Store.Adoptable(ctx, f.Log)
}

// Settle is part of bundle.Fork.
func (f bundled) Settle(ctx context.Context) error {
	return f.Fork.Settle(ctx, f.of.base.cfg.Controllers)
}

// Adopt is part of bundle.Fork.
func (f bundled) Adopt(ctx context.Context) (int64, error) {
	objects := f.of.base.objects
	rev, err := objects.Store.Adopt(ctx, f.Log)
	if err != nil {
		return 0, err
	}
	if h := f.of.history; h != nil {
		h.Wrote(rev, engine.AuthorOf(ctx))
	}
	return rev, objects.Settle(ctx)
}
