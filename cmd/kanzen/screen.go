package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	"golang.org/x/term"

	"github.com/kanzen-io/kanzen/internal/base/logs"
)

// screen is where a server writes its log. On a terminal its last line says what the server does now; it is replaced by
// what follows.
type screen struct {
	out      io.Writer
	terminal bool

	mu     sync.Mutex
	status bool // the last line is a status; guarded by mu
}

func newScreen(out io.Writer) *screen {
	f, ok := out.(*os.File)
	return &screen{out: out, terminal: ok && term.IsTerminal(int(f.Fd()))}
}

// eraseLine moves to the beginning of the line and erases it.
const eraseLine = "\r\x1b[K"

// Write is part of io.Writer: lines of the log.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	return s.out.Write(p)
}

// show replaces the status; "" removes it.
func (s *screen) show(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	if text != "" && s.terminal {
		fmt.Fprint(s.out, text+" ...")
		s.status = true
	}
}

func (s *screen) erase() {
	if s.status {
		fmt.Fprint(s.out, eraseLine)
		s.status = false
	}
}

// handler returns a handler that writes to the screen. On a terminal, where a person looks on, steps are its status and
// not lines, unless more than warnings is wanted.
func (s *screen) handler(format string, level slog.Leveler) (slog.Handler, error) {
	h, err := logs.New(s, format, level)
	if err != nil || !s.terminal {
		return h, err
	}
	return &onTerminal{h, s, level}, nil
}

type onTerminal struct {
	slog.Handler
	screen *screen
	level  slog.Leveler
}

// Enabled is part of slog.Handler.
func (h *onTerminal) Enabled(ctx context.Context, l slog.Level) bool {
	return l == logs.Began || h.Handler.Enabled(ctx, l)
}

// Handle is part of slog.Handler.
func (h *onTerminal) Handle(ctx context.Context, r slog.Record) error {
	switch {
	case r.Level == logs.Began:
		h.screen.show(r.Message)
		return nil
	case r.Level == logs.Ended && h.level.Level() > slog.LevelInfo:
		h.screen.show("")
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs is part of slog.Handler.
func (h *onTerminal) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &onTerminal{h.Handler.WithAttrs(attrs), h.screen, h.level}
}

// WithGroup is part of slog.Handler.
func (h *onTerminal) WithGroup(name string) slog.Handler {
	return &onTerminal{h.Handler.WithGroup(name), h.screen, h.level}
}
