package webhook

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/base/series"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

const (
	// probeEvery is the interval at which this server asks suspected webhooks itself.
	probeEvery = 5 * time.Second
	// shortTimeout bounds a call behind an open breaker that must be made nevertheless.
	shortTimeout = time.Second
	// minUsers and minNamespaces are how many must have met the failures of a webhook before it is suspected. The second
	// holds only for failures in namespaces.
	minUsers, minNamespaces = 3, 2
	// forgetAfter is how long a suspicion lasts if no write needs the webhook.
	forgetAfter = 5 * time.Minute
	// maxSuspects bounds the webhooks whose failures are followed.
	maxSuspects = 1000
)

// breaker keeps writes from waiting for webhooks that are gone.
//
// Whoever writes decides what a webhook has to examine, so that a failure that depends on the object must have no effect on
// the writes of others. Therefore only calls that got no connection or no answer count, and they make the webhook no more than
// suspect, once several users have met them. A review of this server's own decides: only if that gets no answer either, the
// breaker opens, and it closes as soon as one gets an answer, whatever the answer is.
type breaker struct {
	patience time.Duration
	clock    clock.WithTicker
	guard    *guard.Guard
	log      *slog.Logger
	open     *series.GaugeVec
	mu       sync.Mutex
	// suspects has the webhooks that have failed since they last answered. A changed configuration has new hooks, and so begins
	// without a suspicion. Guarded by mu, as are the fields of the suspects.
	suspects map[*hook]*suspect
}

// suspect is a webhook that has not answered since a time.
type suspect struct {
	since, asked      time.Time
	users, namespaces map[string]bool // up to as many as are needed
	open, probing     bool
	probe             func(ctx context.Context) outcome
}

// errOpen is the failure of a call that was not made.
var errOpen = errors.New("the webhook has failed for long and is not waited for")

// post calls a webhook within its timeout. Behind an open breaker the call is not made if its failure refuses the write;
// otherwise it is made with a short timeout, because to skip it would let by what the webhook refuses.
func (d *Deps) post(ctx context.Context, h *hook, a *admission.Attributes, c *client, body []byte) ([]byte, error) {
	if d.Guardrails == nil || d.Guardrails.breaker == nil {
		got, _, err := c.try(ctx, h.timeout(), body)
		return got, err
	}
	b := d.Guardrails.breaker
	timeout, open := h.timeout(), b.isOpen(h)
	switch {
	case open && !h.ignore && !h.shadow:
		return nil, errOpen
	case open:
		timeout = min(timeout, shortTimeout)
	}
	got, o, err := c.try(ctx, timeout, body)
	b.saw(h, a, o, func() func(ctx context.Context) outcome { return d.probeOf(h) })
	return got, err
}

// isOpen says that the breaker of a webhook is open.
func (b *breaker) isOpen(h *hook) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.suspects[h]
	if s == nil {
		return false
	}
	s.asked = b.clock.Now()
	return s.open
}

// saw records what has become of a call. probeOf makes the probe of the webhook; it returns nil if there can be none, and then
// the webhook is never suspected.
func (b *breaker) saw(h *hook, a *admission.Attributes, o outcome, probeOf func() func(ctx context.Context) outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.suspects[h]
	switch {
	case o == answered:
		b.clear(h)
		return
	case o != gone, s == nil && len(b.suspects) >= maxSuspects:
		return
	case s == nil:
		now := b.clock.Now()
		s = &suspect{since: now, asked: now, users: map[string]bool{}, namespaces: map[string]bool{}, probe: probeOf()}
		if s.probe == nil {
			return
		}
		b.suspects[h] = s
	}
	if len(s.users) < minUsers {
		s.users[writer(a)] = true
	}
	if a.Namespace != "" && len(s.namespaces) < minNamespaces {
		s.namespaces[a.Namespace] = true
	}
}

// writer identifies who writes. Whoever may make service accounts in a namespace can write as many of them, so that all of a
// namespace count as one.
func writer(a *admission.Attributes) string {
	if a.User == nil {
		return ""
	}
	if namespace, _, err := serviceaccount.SplitUsername(a.User.GetName()); err == nil {
		return serviceaccount.MakeNamespaceGroupName(namespace)
	}
	return a.User.GetName()
}

// suspected says that enough calls have failed, of enough users and for long enough, for this server to ask itself.
func (s *suspect) suspected(now time.Time, patience time.Duration) bool {
	return now.Sub(s.since) >= patience && len(s.users) >= minUsers && (len(s.namespaces) == 0 || len(s.namespaces) >= minNamespaces)
}

// clear forgets a webhook, which closes its breaker. The caller holds mu.
func (b *breaker) clear(h *hook) {
	s := b.suspects[h]
	if s == nil {
		return
	}
	delete(b.suspects, h)
	if s.open {
		b.open.DeleteLabelValues(h.configuration, h.name)
		b.log.Info("a webhook is waited for again", "webhook", h.name, "configuration", h.configuration)
	}
}

// run probes suspects until ctx ends.
func (b *breaker) run(ctx context.Context) {
	var probes sync.WaitGroup
	defer probes.Wait()
	tick := b.clock.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C():
			b.look(ctx, &probes)
		case <-ctx.Done():
			return
		}
	}
}

// look forgets the webhooks that no write needs, and starts the probes that are due.
func (b *breaker) look(ctx context.Context, probes *sync.WaitGroup) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	for h, s := range b.suspects {
		switch {
		case now.Sub(s.asked) >= forgetAfter:
			b.clear(h)
		case !s.probing && (s.open || s.suspected(now, b.patience)):
			s.probing = true
			probes.Go(func() {
				o := unclear
				_ = b.guard.Call("probe of a webhook", func() error { o = s.probe(ctx); return nil }) // logged there
				b.decide(h, s, o)
			})
		}
	}
}

// decide opens or closes the breaker of a suspect by the outcome of its probe. A connection that is lost closes it, too:
// writes do not wait for that.
func (b *breaker) decide(h *hook, s *suspect, o outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.probing = false
	switch {
	case b.suspects[h] != s: // a call was answered meanwhile
	case o != gone:
		b.clear(h)
	case !s.open:
		s.open = true
		b.open.WithLabelValues(h.configuration, h.name).Set(1)
		effect := "writes that it is asked about are refused at once"
		if h.ignore || h.shadow {
			effect = "writes that it is asked about wait for it for no more than " + shortTimeout.String()
		}
		b.log.Warn("a webhook has failed for long: until it answers a review of this server, "+effect, "webhook", h.name, "configuration", h.configuration)
	}
}
