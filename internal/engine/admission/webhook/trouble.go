package webhook

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/logs"
)

const (
	// slow is how long a call of a webhook may take before it is warned of: a request waits for it.
	slow = time.Second
	// sayAgain is how often a warning about one webhook is repeated while its reason lasts.
	sayAgain = 5 * time.Minute
)

// Trouble warns of webhooks that fail or are slow: a line for each when that begins, and seldom while it lasts.
type Trouble struct {
	what   string
	seldom *logs.Seldom
}

// NewTrouble makes a Trouble about what, "a webhook" for instance.
func NewTrouble(what string, log *slog.Logger, clk clock.PassiveClock) *Trouble {
	return &Trouble{what, logs.NewSeldom(log, clk, sayAgain)}
}

// Failed warns of a call that got no answer, and of the effect. A call that its client has given up says nothing about
// the webhook.
func (t *Trouble) Failed(id, effect string, err error, args ...any) {
	if !errors.Is(err, context.Canceled) {
		t.seldom.Warn("failed "+id, t.what+" does not answer as it should, and "+effect+": see to its server, or remove its configuration",
			append(args, "error", err)...)
	}
}

// Answered warns of an answer that was slow to come.
func (t *Trouble) Answered(id string, took time.Duration, args ...any) {
	if took >= slow {
		t.seldom.Warn("slow "+id, t.what+" is slow, and every request that needs it waits: see to its server, or have it asked less",
			append(args, "took", took.Round(time.Millisecond))...)
	}
}

// warn warns of a webhook whose call has ended with err.
func (d *Deps) warn(h *hook, err error, took time.Duration) {
	var failed *callError
	if !errors.As(err, &failed) {
		d.trouble.Answered(h.id, took, "webhook", h.name, "configuration", h.configuration)
		return
	}
	effect := "writes that it is asked about are refused"
	if h.ignore {
		effect = "writes go on without it (failurePolicy: Ignore)"
	}
	d.trouble.Failed(h.id, effect, err, "webhook", h.name, "configuration", h.configuration)
}
