package chain

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Authorization passes on the requests that the authorizer allows, and answers 403 to the others. It also passes on those that ask
// for less than their path says, with the refusal: that is for who serves them.
func Authorization(a authz.Authorizer, log *slog.Logger, writeError ErrorWriter) Filter {
	return func(next Handler) Handler {
		return func(w http.ResponseWriter, r *http.Request) {
			ctx := r.Context()
			info := request.InfoFrom(ctx)
			attributes := authz.ForRequest(request.UserFrom(ctx), info)
			decision, reason, err := a.Authorize(ctx, attributes)
			switch {
			case decision == authz.Allow:
				// Even with an error: if RBAC allows a request, it does not matter that another authorizer failed.
				next(w, r)
			case err != nil:
				log.Log(ctx, request.FailureLevel(ctx, slog.LevelError), "Could not authorize a request", "err", err, "auditID", request.AuditIDFrom(ctx))
				writeError(w, r, cmp.Or(request.Unfinished(ctx), fmt.Errorf("authorize: %w", err)))
			case info.Narrowed():
				info.Refusal = authz.Forbidden(attributes, reason)
				next(w, r)
			default:
				noSniff(w.Header())
				writeError(w, r, authz.Forbidden(attributes, reason))
			}
		}
	}
}
