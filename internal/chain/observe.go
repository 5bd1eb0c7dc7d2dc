package chain

import (
	"context"
	"net/http"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/authz"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/span"
)

// Latency counts where a request's time goes.
func Latency(clk clock.PassiveClock) Filter {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, _ := request.WithLatency(r.Context(), clk)
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}
}

// auditedAuthorizer decides on the request itself, and has its audit event say
// what came of it.
type auditedAuthorizer struct{ authz.Authorizer }

func (t auditedAuthorizer) Authorize(ctx context.Context, a *authz.Attributes) (authz.Decision, string, error) {
	decision, reason, err := t.Authorizer.Authorize(ctx, a)
	const decided, because = "authorization.k8s.io/decision", "authorization.k8s.io/reason"
	audit := request.AuditFrom(ctx)
	switch {
	case decision == authz.Allow:
		audit.Annotate(request.AuditAnnotation{Key: decided, Value: "allow"}, request.AuditAnnotation{Key: because, Value: reason})
	case err != nil:
		audit.Annotate(request.AuditAnnotation{Key: because, Value: "internal error"})
	default:
		audit.Annotate(request.AuditAnnotation{Key: decided, Value: "forbid"}, request.AuditAnnotation{Key: because, Value: reason})
	}
	return decision, reason, err
}

// impersonationFilter is the name that the filter has in the metric.
func impersonationFilter(c *Config) string {
	if c.LegacyImpersonation {
		return "impersonation"
	}
	return "constrainedimpersonation"
}

// noLayer is where a filter's time is not told apart in the request's own.
const noLayer request.Layer = -1

// measured counts how long a request is in a filter before it passes on, or is
// refused there: in the request's latency and for the metric. In traces it has
// a span that also has what follows in it.
func measured(name string, layer request.Layer, c *Config, f Filter) Filter {
	if f == nil {
		return nil
	}
	leave := func(r *http.Request) {
		d, first := request.LatencyFrom(r.Context()).Leave(c.Clock.Now())
		if !first {
			return
		}
		if layer != noLayer {
			request.Spend(r.Context(), layer, d)
		}
		if c.OnFilter != nil {
			c.OnFilter(name, d)
		}
	}
	return func(next http.Handler) http.Handler {
		inner := f(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			leave(r)
			next.ServeHTTP(w, r)
		}))
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			request.LatencyFrom(r.Context()).Enter(c.Clock.Now())
			if ctx, s := span.Start(r.Context(), name); s.On() {
				defer s.End()
				r = r.WithContext(ctx)
			}
			inner.ServeHTTP(w, r)
			leave(r)
		})
	}
}
