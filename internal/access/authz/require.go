package authz

import (
	"context"

	"github.com/kanzen-io/kanzen/internal/request"
)

// Require returns a func that asks whether the context's user may do something else than the request that was
// authorized; its error is the refusal.
func Require(a Authorizer) func(ctx context.Context, i *request.Info) error {
	return func(ctx context.Context, i *request.Info) error {
		at := ForRequest(request.UserFrom(ctx), i)
		decision, reason, err := a.Authorize(ctx, at)
		if decision == Allow {
			return nil
		}
		if err != nil {
			return err
		}
		return Forbidden(at, reason)
	}
}
