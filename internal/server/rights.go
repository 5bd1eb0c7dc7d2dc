package server

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/access/authz/modes"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/request/scope"
	"github.com/kanzen-io/kanzen/internal/store"
)

// rights answers the engine what users may see.
type rights struct{ *modes.Set }

// Scope is part of engine.Rights.
func (r rights) Scope(ctx context.Context, i *request.Info, namespaced bool, within []string, all func(context.Context) ([]string, error)) (scope.Set, error) {
	a := *authz.ForRequest(request.UserFrom(ctx), i)
	a.Name = ""
	return r.Set.Scope(ctx, modes.Question{Attributes: a, Namespaced: namespaced, Within: within, All: all})
}

// Version is part of engine.Rights.
func (r rights) Version(ctx context.Context) uint64 { return r.Set.Version(request.UserFrom(ctx)) }

// Next is part of engine.Rights.
func (r rights) Next(ctx context.Context) <-chan struct{} { return r.Set.Next(request.UserFrom(ctx)) }

// Reach is part of engine.Rights.
func (r rights) Reach(ctx context.Context, log *store.Store, rev int64) error {
	return r.Set.Reach(ctx, request.UserFrom(ctx), log, rev)
}

// ChangedAt is part of engine.Rights.
func (r rights) ChangedAt(ctx context.Context) (int64, error) {
	return r.Set.ChangedAt(ctx, request.UserFrom(ctx))
}

// Follows is part of engine.Rights.
func (r rights) Follows(ctx context.Context, log *store.Store) error {
	return r.Set.Follows(request.UserFrom(ctx), log)
}

// namespaces returns the view of the namespaces.
func (b *base) namespaces() *store.View {
	ep, err := b.objects.Endpoint(schema.GroupResource{Resource: "namespaces"})
	if err != nil {
		panic(err) // they are always served
	}
	return ep.View()
}
