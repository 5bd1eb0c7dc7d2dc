package planes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/server/planes/owners"
)

// This file makes Events of what happens to planes, one for each change, by one server.

// maxEvents is how many may wait to be stored. When a server crashes that has very many planes, not each has to be told of.
const maxEvents = 1000

// failedAgain is how long a plane that has failed to wake is not told of again, though it woke in between.
const failedAgain = time.Minute

// went takes up that this server has passed a plane on, or has taken it from another one.
func (f *Fleet) went(c owners.Change) {
	f.metrics.changes.WithLabelValues(c.Why).Inc()
	f.mu.RLock()
	h := f.byUID[c.Plane]
	f.mu.RUnlock()
	if h == nil {
		return
	}
	switch c.Why {
	case owners.Moved:
		f.event(h, corev1.EventTypeNormal, "Moved", fmt.Sprintf("from %s to %s, because spec.server names that", c.From, c.To))
	case owners.Stopped:
		f.event(h, corev1.EventTypeNormal, "Moved", fmt.Sprintf("from %s to %s, because %s was stopped", c.From, c.To, c.From))
	case owners.TakenOver:
		silent := ""
		if c.Silent > 0 {
			silent = fmt.Sprintf(", of which nothing was heard for %v", c.Silent.Round(100*time.Millisecond))
		}
		f.event(h, corev1.EventTypeWarning, "TakenOver", fmt.Sprintf("by %s from %s%s", c.To, c.From, silent))
	}
}

// wakesNot takes up that the plane could not be woken, for a reason; nil: it is awake.
func (h *hosted) wakesNot(ctx context.Context, why error) {
	var elsewhere *elsewhereError
	if errors.As(why, &elsewhere) || errors.Is(why, errOver) || errors.Is(why, errOvertaken) || errors.Is(why, errAwaitsImport) || errors.Is(why, errStarting) || why != nil && errors.Is(ctx.Err(), context.Canceled) {
		return // it is not to wake here, or nobody waits for it
	}
	f := h.fleet
	h.mu.Lock()
	now := f.on.Clock.Now()
	tell := why != nil && !h.failing && (h.failed.IsZero() || now.Sub(h.failed) >= failedAgain)
	h.failing = why != nil
	if tell {
		h.failed = now
	}
	h.mu.Unlock()
	if tell {
		f.event(h, corev1.EventTypeWarning, "FailedToWake", fmt.Sprintf("%s: %v", f.name(), why))
	}
}

// maxMessage bounds the message of an Event, in bytes.
const maxMessage = 1000

// event has an Event of a plane stored. It does not wait.
func (f *Fleet) event(h *hosted, kind, reason, message string) {
	now := metav1.NewTime(f.on.Clock.Now())
	e := &corev1.Event{Type: kind, Reason: reason, Message: strings.ToValidUTF8(message[:min(len(message), maxMessage)], ""), FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Source:         corev1.EventSource{Component: "kanzen", Host: f.name()},
		InvolvedObject: corev1.ObjectReference{APIVersion: Group + "/" + Version, Kind: "Plane", Name: h.name, UID: h.uid}}
	e.GenerateName, e.Namespace = h.name+"-", metav1.NamespaceDefault // that of Events of what is in no namespace
	select {
	case f.events <- e:
	default:
		f.log.Info("an Event of a plane is left out: too many wait to be stored", "plane", h.name, "reason", reason, "message", message)
	}
}

// lastEvents is how long Events may take that wait to be stored when the server stops.
const lastEvents = 2 * time.Second

// keepEvents stores Events until end is called, which waits for those that there are then.
func (f *Fleet) keepEvents(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // what the fleet does last is told too
	enough, told := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(told)
		f.guard.Keep(ctx, "Events of planes", func(ctx context.Context) { f.tellEvents(ctx, enough) })
	}()
	return func() {
		close(enough)
		select {
		case <-told:
		case <-f.on.Clock.After(lastEvents):
		}
		cancel()
		<-told
	}
}

// tellEvents stores Events until enough is closed, and then those that wait, unless ctx ends.
func (f *Fleet) tellEvents(ctx context.Context, enough <-chan struct{}) {
	for {
		select {
		case e := <-f.events:
			f.storeEvent(ctx, e)
			continue
		case <-enough:
		}
		for len(f.events) > 0 && ctx.Err() == nil { // nobody else takes them
			f.storeEvent(ctx, <-f.events)
		}
		return
	}
}

func (f *Fleet) storeEvent(ctx context.Context, e *corev1.Event) {
	if err := f.root.create(ctx, "/api/v1/namespaces/"+e.Namespace+"/events", e); err != nil && ctx.Err() == nil {
		f.log.Info("an Event of a plane could not be stored", "plane", e.InvolvedObject.Name, "reason", e.Reason, "message", e.Message, "error", err)
	}
}
