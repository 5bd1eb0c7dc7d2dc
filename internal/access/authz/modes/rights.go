package modes

import (
	"context"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/request/scope"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Rights answer what the user of a request may see, who is in its context. They are engine.Rights.
type Rights struct{ *Set }

// Scope is part of engine.Rights.
func (r Rights) Scope(ctx context.Context, i *request.Info, namespaced bool, within []string, all func(context.Context) ([]string, error)) (scope.Set, error) {
	a := *authz.ForRequest(request.UserFrom(ctx), i)
	a.Name = ""
	return r.Set.Scope(ctx, Question{Attributes: a, Namespaced: namespaced, Within: within, All: all})
}

// Version is part of engine.Rights.
func (r Rights) Version(ctx context.Context) uint64 { return r.Set.Version(request.UserFrom(ctx)) }

// Next is part of engine.Rights.
func (r Rights) Next(ctx context.Context) <-chan struct{} { return r.Set.Next(request.UserFrom(ctx)) }

// Reach is part of engine.Rights.
func (r Rights) Reach(ctx context.Context, log *store.Store, rev int64) error {
	return r.Set.Reach(ctx, request.UserFrom(ctx), log, rev)
}

// ChangedAt is part of engine.Rights.
func (r Rights) ChangedAt(ctx context.Context) (int64, error) {
	return r.Set.ChangedAt(ctx, request.UserFrom(ctx))
}

// Follows is part of engine.Rights.
func (r Rights) Follows(ctx context.Context, log *store.Store) error {
	return r.Set.Follows(request.UserFrom(ctx), log)
}
