package flowcontrol

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/request"
)

// details is what the debugging pages show of a request.
type details struct {
	user string
	info *request.Info
}

// levelHeader and schemaHeader are headers of each answer, as http.Header has their names.
var (
	levelHeader  = http.CanonicalHeaderKey(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID)
	schemaHeader = http.CanonicalHeaderKey(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID)
)

// maxWait bounds how long a request waits in a queue. Most requests wait at most a quarter of their deadline.
const maxWait = time.Minute

// Filter admits requests in their turn. limit bounds the whole time of a request without a deadline.
//
// A watch takes seats only until it has sent its initial events, and no longer than another request may last, so that a
// slow client costs little. Other long-running requests take no seats.
func (c *Controller) Filter(limit time.Duration) chain.Filter {
	return func(next chain.Handler) chain.Handler {
		return func(w http.ResponseWriter, r *http.Request) {
			ctx := r.Context()
			i, u := request.InfoFrom(ctx), request.UserFrom(ctx)
			watch := i.Verb == "watch"
			if chain.LongRunning(i) && !watch {
				next(w, r)
				return
			}
			f := c.classify(u, i)
			t := &ticket{flow: f, details: &details{u.GetName(), i}}
			t.Estimate = c.estimate(r, i, f, f.maxSeats)
			f.metrics().seats.Observe(float64(t.seats()))
			h := w.Header()
			h[levelHeader], h[schemaHeader] = []string{string(f.levelUID)}, []string{string(f.UID)}
			var hash uint64
			if !f.exempt {
				t.which = f.distinguish(u, i)
				hash = f.hash(t.which)
			}
			done, reason := f.level.enter(ctx, f, t, hash, c.waitUntil(ctx, limit))
			if done == nil {
				f.metrics().rejected(reason)
				h.Set("Retry-After", strconv.Itoa(f.level.retry.refused(c.clock.Now())))
				http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
				return
			}
			executing := &c.metrics.phasesOf(i.Verb).executing
			executing.add(1)
			leave := done
			done = sync.OnceFunc(func() { executing.add(-1); leave() })
			defer done()
			if watch {
				defer c.watches.add(r.URL, i)()
				defer c.clock.AfterFunc(limit, done).Stop()
				r = r.WithContext(request.WithWatching(ctx, done))
			}
			next(w, r)
		}
	}
}

// classify returns the first schema that matches a request.
func (c *Controller) classify(u user.Info, i *request.Info) *flow {
	var all *flow
	for _, f := range *c.schemas.Load() {
		if f.matches(u, i) {
			return f
		}
		if f.Name == flowcontrolv1.FlowSchemaNameCatchAll {
			all = f
		}
	}
	return all // also for a user in neither of the groups of the catch-all schema
}

// waitUntil returns the time at which a request has waited too long.
func (c *Controller) waitUntil(ctx context.Context, limit time.Duration) time.Time {
	from := request.ReceivedFrom(ctx)
	if from.IsZero() {
		from = c.clock.Now()
	}
	wait := limit / 4
	if deadline, ok := ctx.Deadline(); ok {
		wait = deadline.Sub(from) / 4
	}
	return from.Add(min(wait, maxWait))
}
