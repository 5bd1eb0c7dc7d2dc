// Package logs writes the log of this program: one format for everything, including the lines of etcd and of libraries.
// Starting and stopping are logged in steps (Step), and what may be said again and again is said once in a while (Seldom).
package logs

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"k8s.io/utils/clock"
)

// Formats are the values of --logging-format.
var Formats = []string{"text", "json"}

// Levels of the lines of steps: above information, below warnings.
const (
	// Began is the level of a line that says what is being done. It is for a terminal; logs have Ended.
	Began = slog.LevelInfo + 1
	// Ended is the level of a line that says what has been done, and how long it took.
	Ended = slog.LevelInfo + 2
)

// New returns a handler that writes a format from a level on; steps always.
func New(w io.Writer, format string, level slog.Leveler) (slog.Handler, error) {
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: plain}
	switch format {
	case "", "text":
		return steps{slog.NewTextHandler(w, o)}, nil
	case "json":
		return steps{slog.NewJSONHandler(w, o)}, nil
	}
	return nil, fmt.Errorf("%q is none of text, json", format)
}

// plain writes the levels of steps as information, and durations as people read them.
func plain(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.LevelKey {
		if l, ok := a.Value.Any().(slog.Level); ok && (l == Began || l == Ended) {
			return slog.String(a.Key, slog.LevelInfo.String())
		}
	}
	if a.Value.Kind() == slog.KindDuration {
		return slog.String(a.Key, a.Value.Duration().String())
	}
	return a
}

// steps lets the ends of steps through at any level.
type steps struct{ slog.Handler }

// Enabled is part of slog.Handler.
func (h steps) Enabled(ctx context.Context, l slog.Level) bool {
	return l == Ended || l != Began && h.Handler.Enabled(ctx, l)
}

// WithAttrs is part of slog.Handler.
func (h steps) WithAttrs(attrs []slog.Attr) slog.Handler { return steps{h.Handler.WithAttrs(attrs)} }

// WithGroup is part of slog.Handler.
func (h steps) WithGroup(name string) slog.Handler { return steps{h.Handler.WithGroup(name)} }

// Step logs that something begins. The func that it returns logs that it has been done, and how long that took.
func Step(log *slog.Logger, clk clock.PassiveClock, doing, done string, args ...any) func() {
	ctx := context.Background()
	log.Log(ctx, Began, doing, args...)
	begin := clk.Now()
	return func() {
		log.Log(ctx, Ended, done, append(args, "took", clk.Since(begin).Round(100*time.Microsecond))...)
	}
}
