package pebble

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
)

// ErrBroken says that the database has given up, for example because the disk is full or has failed.
var ErrBroken = errors.New("the database cannot go on")

// breakage is why the tree cannot go on. Its code would end the process, or panic. Here the server is told: it closes what it can and says
// what happened. What is on disk stays as it is, and is good for the next start.
type breakage struct {
	happened chan struct{} // closed at the first

	mu  sync.Mutex
	why error
}

func newBreakage() *breakage { return &breakage{happened: make(chan struct{})} }

func (b *breakage) set(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.why == nil {
		b.why = fmt.Errorf("%w: %w", ErrBroken, why)
		close(b.happened)
	}
}

func (b *breakage) err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.why
}

// fatal is what the tree says when it cannot go on, in a call.
type fatal struct{ error }

// recoverFatal is recover for calls that also run code of the caller, whose panics are its own.
func (b *breakage) recoverFatal(err *error) {
	switch p := recover().(type) {
	case nil:
	case fatal:
		*err = b.err()
	default:
		panic(p)
	}
}

// recover turns a panic of the tree into an error, and breaks the database.
func (b *breakage) recover(err *error) {
	if p := recover(); p != nil {
		if why, ok := p.(error); ok {
			b.set(why)
		} else {
			b.set(fmt.Errorf("%v", p))
		}
		*err = b.err()
	}
}

// logger takes what the tree has to say.
type logger struct {
	log    *slog.Logger
	broken *breakage
}

func (l logger) Infof(format string, args ...any) {
	l.log.Debug("pebble: " + fmt.Sprintf(format, args...))
}

func (l logger) Errorf(format string, args ...any) {
	l.log.Warn("pebble: " + fmt.Sprintf(format, args...))
}

// Fatalf must not return: the tree cannot go on.
func (l logger) Fatalf(format string, args ...any) {
	why := fmt.Errorf(format, args...)
	l.broken.set(why)
	if called() {
		panic(fatal{why}) // to who called
	}
	runtime.Goexit()
}

// called says whether this goroutine is in a call of a method of DB, and none of the tree's own.
func called() bool {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		frame, more := frames.Next()
		if strings.Contains(frame.Function, "store/pebble.(*") {
			return true
		}
		if !more {
			return false
		}
	}
}
