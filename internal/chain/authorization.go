package chain

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/kanzen-io/kanzen/internal/authz"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Authorization passes on the requests that the authorizer allows, and answers 403 to the others.
func Authorization(a authz.Authorizer, log *slog.Logger, writeError ErrorWriter) Filter {
	return func(next Handler) Handler {
		return func(w http.ResponseWriter, r *http.Request) {
			ctx := r.Context()
			attributes := authz.ForRequest(request.UserFrom(ctx), request.InfoFrom(ctx))
			decision, reason, err := a.Authorize(ctx, attributes)
			switch {
			case decision == authz.Allow:
				// Even with an error: if RBAC allows a request, it does not matter that another authorizer failed.
				next(w, r)
			case err != nil:
				log.Log(ctx, request.FailureLevel(ctx, slog.LevelError), "Could not authorize a request", "err", err, "auditID", request.AuditIDFrom(ctx))
				writeError(w, r, cmp.Or(request.Unfinished(ctx), fmt.Errorf("authorize: %w", err)))
			default:
				noSniff(w.Header())
				writeError(w, r, authz.Forbidden(attributes, reason))
			}
		}
	}
}
