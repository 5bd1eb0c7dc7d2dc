package chain

import (
	"context"
	"net/http"
	"time"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/base/span"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Latency puts the counter of a request's time into its context.
func Latency(clk clock.PassiveClock) Filter {
	return func(next Handler) Handler {
		return func(w http.ResponseWriter, r *http.Request) {
			ctx, _ := request.WithLatency(r.Context(), clk)
			next(w, r.WithContext(ctx))
		}
	}
}

// auditedAuthorizer writes its decisions into the request's audit event. It is only for the request itself.
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
	case request.InfoFrom(ctx).Narrowed():
		// What is served is decided object by object, and may be nothing.
		audit.Annotate(request.AuditAnnotation{Key: decided, Value: "allow"}, request.AuditAnnotation{Key: because, Value: "narrowed to what the user may see"})
	default:
		audit.Annotate(request.AuditAnnotation{Key: decided, Value: "forbid"}, request.AuditAnnotation{Key: because, Value: reason})
	}
	return decision, reason, err
}

// impersonationTimer measures the filter, under the name that it has in the metric. Requests' latency has had its time since
// there are constrained modes.
func (c *Config) impersonationTimer() *timer {
	if c.LegacyImpersonation {
		return c.timer("impersonation", noLayer)
	}
	return c.timer("constrainedimpersonation", request.LayerImpersonation)
}

// noLayer is the layer of filters whose time the request's latency does not tell apart.
const noLayer request.Layer = -1

// timer measures how long requests are in a filter: until it passes them on, or until it has answered them. The time
// goes into the request's latency and to Config.OnFilter. In traces the filter has a span, which contains the spans
// of everything behind it.
type timer struct {
	name   string // as the metric spells it
	layer  request.Layer
	clock  clock.PassiveClock
	report func(d time.Duration) // nil: nobody is told
}

func (c *Config) timer(name string, layer request.Layer) *timer {
	t := &timer{name: name, layer: layer, clock: c.Clock}
	if c.OnFilter != nil {
		t.report = c.OnFilter(name)
	}
	return t
}

// stop ends the time of the filter, unless it has ended before.
func (t *timer) stop(l *request.Latency, now time.Time) {
	d, first := l.Leave(now)
	if !first {
		return
	}
	if t.layer != noLayer {
		l.Visit(t.layer, now.Add(-d), d)
	}
	if t.report != nil {
		t.report(d)
	}
}

// pass stands between a filter and the next one: it ends the time of the first and begins that of the second. nil is
// not measured.
func pass(before, behind *timer, next Handler) Handler {
	switch {
	case before == nil && behind == nil:
		return next
	case behind == nil:
		return func(w http.ResponseWriter, r *http.Request) {
			before.stop(request.LatencyFrom(r.Context()), before.clock.Now())
			next(w, r)
		}
	}
	return func(w http.ResponseWriter, r *http.Request) {
		latency, now := request.LatencyFrom(r.Context()), behind.clock.Now()
		if before != nil {
			before.stop(latency, now)
		}
		latency.Enter(now)
		if ctx, s := span.Start(r.Context(), behind.name); s.On() {
			defer s.End()
			r = r.WithContext(ctx)
		}
		next(w, r)
		behind.stop(latency, behind.clock.Now()) // of a request that the filter has answered itself
	}
}
