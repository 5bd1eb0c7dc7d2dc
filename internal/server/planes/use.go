package planes

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// This file tells what planes use: now, to the readers of the flight recorder, and from time to time in the status of each Plane.

// refusals count what was refused to a plane since the process started.
type refusals struct {
	rate, watches, storage, seats, start atomic.Int64
}

func (r *refusals) all() v1alpha1.RefusedPlane {
	return v1alpha1.RefusedPlane{RequestsPerSecond: r.rate.Load(), Watches: r.watches.Load(), Storage: r.storage.Load(), Seats: r.seats.Load(), Start: r.start.Load()}
}

// figures are what a status says of the use of a plane.
type figures struct {
	requests, watches, objects, bytes int64
	refused                           v1alpha1.RefusedPlane
	limited                           bool // something was refused lately
	counted                           time.Time
}

// stat is what this server knows of the plane.
func (h *hosted) stat() *v1alpha1.PlaneStat {
	s := &v1alpha1.PlaneStat{State: asleep, Requests: h.answered.Load(), Watches: h.watching.Load(), Wakes: h.wakes.Load(), RefusedBy: h.refused.all()}
	s.Name, s.Refused = h.name, s.RefusedBy.All()
	if h.awake() {
		s.State = awake
	}
	if seats := h.seats.Load(); seats != nil {
		s.Seats, s.SeatsInUse, s.Waiting = int64(cap(seats.taken)), int64(len(seats.taken)), seats.waiting.Load()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s.Objects, s.Bytes = h.told.objects, h.told.bytes
	return s
}

// observeEvery is how often the status of planes that are awake is written, if something has changed.
const observeEvery = time.Minute

// observe has the status of planes that are awake written anew if their use has changed, until ctx ends. Those that are asleep cost
// nothing, unless who was to say that they can be served has ended before.
func (f *Fleet) observe(ctx context.Context) {
	every := f.on.Clock.NewTicker(observeEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C():
		case <-ctx.Done():
			return
		}
		for _, h := range f.all() {
			if h.awake() && h.outdated() || f.misjudged(h) {
				f.queue.AddAfter(h.name, 0)
			}
		}
	}
}

// outdated reports whether the status does not say what there is to say.
func (h *hosted) outdated() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	refused := h.refused.all()
	h.untold = h.untold || h.told.limited || h.told.requests != h.answered.Load() || h.told.watches != h.watching.Load() || h.told.refused != refused ||
		h.bounds != nil && h.bounds.wrote.Load() && h.fleet.on.Clock.Since(h.told.counted) >= countEvery
	return h.untold
}

// isUntold reports whether the status is to be written anew.
func (h *hosted) isUntold() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.untold
}

// countEvery is how often at most what a plane has stored is counted while it is awake: all of it is read for that.
const countEvery = 10 * time.Minute

// describe says in a status what the plane uses. What is stored is counted if something was written since it was counted last: when the plane has
// gone to sleep, and now and then before.
func (f *Fleet) describe(ctx context.Context, h *hosted, p *Plane) error {
	h.mu.Lock()
	was, bounds := h.told, h.bounds
	h.untold = false
	h.mu.Unlock()
	now := figures{requests: h.answered.Load(), watches: h.watching.Load(), objects: p.Status.Objects, bytes: p.Status.Bytes, refused: h.refused.all(), counted: was.counted}
	at := f.on.Clock.Now()
	due := p.Status.State != awake || at.Sub(was.counted) >= countEvery
	if due && bounds != nil && bounds.wrote.Swap(false) || now.objects == 0 {
		var err error
		now.counted = at
		if now.objects, now.bytes, err = f.count(ctx, h); err != nil {
			if bounds != nil {
				bounds.wrote.Store(true)
			}
			if errors.Is(err, errSilent) {
				return nil // the status says so
			}
			return err
		}
	}
	p.Status.Requests, p.Status.Watches = now.requests, now.watches
	now.limited = now.refused.Limits() > was.refused.Limits()
	judge(p, was.refused, now.refused, at)
	p.Status.Objects, p.Status.Bytes = now.objects, now.bytes
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told = now
	return nil
}

// count counts what is stored of a plane, which nobody waits long for.
func (f *Fleet) count(ctx context.Context, h *hosted) (objects, bytes int64, err error) {
	c, err := f.answering(h.lying())
	if err != nil {
		return 0, 0, fmt.Errorf("%w: %w", errSilent, err)
	}
	if c.name != "" {
		within, cancel := context.WithTimeout(ctx, classPatience)
		defer cancel()
		if objects, bytes, err = usage(within, c.db, h.prefix()+"/"); err != nil {
			err = fmt.Errorf("%w: %w", errSilent, err)
		}
		return objects, bytes, err
	}
	return usage(ctx, c.db, h.prefix()+"/")
}

// judge sets the condition that says whether something was refused because of the limits. A plane of which nothing ever was has none.
func judge(p *Plane, was, now v1alpha1.RefusedPlane, at time.Time) {
	c := metav1.Condition{Type: withinLimits, Status: metav1.ConditionTrue, Reason: "NothingRefused", Message: "nothing was refused lately because of its limits",
		ObservedGeneration: p.Generation, LastTransitionTime: metav1.NewTime(at)}
	if now.Limits() > was.Limits() {
		c.Status, c.Reason = metav1.ConditionFalse, "Refused"
		c.Message = fmt.Sprintf("refused lately because of its limits: %d requests (requestsPerSecond), %d watches, %d writes (objects, bytes)",
			now.RequestsPerSecond-was.RequestsPerSecond, now.Watches-was.Watches, now.Storage-was.Storage)
	} else if meta.FindStatusCondition(p.Status.Conditions, withinLimits) == nil {
		return
	}
	meta.SetStatusCondition(&p.Status.Conditions, c)
}
