// Package tree has what databases on Pebble's trees share: files that nobody else may read, and a tree that cannot go on without ending the
// process.
package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// ErrBroken says that the database has given up, for example because the disk is full or has failed.
var ErrBroken = errors.New("the database cannot go on")

// Breakage is why the tree cannot go on. Its code would end the process, or panic. Here the server is told: it closes what it can and says
// what happened. What is on disk stays as it is, and is good for the next start.
type Breakage struct {
	Happened chan struct{} // closed at the first

	mu  sync.Mutex
	why error
}

// NewBreakage is for a tree that can go on.
func NewBreakage() *Breakage { return &Breakage{Happened: make(chan struct{})} }

// Set says why it cannot go on. The first reason counts.
func (b *Breakage) Set(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.why == nil {
		b.why = fmt.Errorf("%w: %w", ErrBroken, line{why})
		close(b.Happened)
	}
}

// line is an error in one line: the tree has a line for each file that it misses.
type line struct{ error }

// Error is part of error.
func (l line) Error() string { return strings.ReplaceAll(l.error.Error(), "\n", "; ") }

// Unwrap returns the error as it came.
func (l line) Unwrap() error { return l.error }

// Err is why it cannot go on; nil: it can.
func (b *Breakage) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.why
}

// fatal is what the tree says when it cannot go on, in a call.
type fatal struct{ error }

// RecoverFatal is recover for calls that also run code of the caller, whose panics are its own.
func (b *Breakage) RecoverFatal(err *error) {
	switch p := recover().(type) {
	case nil:
		b.damaged(err)
	case fatal:
		*err = b.Err()
	default:
		panic(p)
	}
}

// Recover turns a panic of the tree into an error, and breaks the database.
func (b *Breakage) Recover(err *error) {
	p := recover()
	if p == nil {
		b.damaged(err)
		return
	}
	if why, ok := p.(error); ok {
		b.Set(why)
	} else {
		b.Set(fmt.Errorf("%v", p))
	}
	*err = b.Err()
}

// damaged breaks the database if an error is by damage on the disk.
func (b *Breakage) damaged(err *error) {
	if pebble.IsCorruptionError(*err) {
		b.Set(*err)
		*err = b.Err()
	}
}

// againAfter is the pause after a flush or compaction that has failed: the tree begins it again at once, and takes a processor while, for
// example, its disk is full. Calls may wait for the pause.
const againAfter = 100 * time.Millisecond

// Listener takes word of damage on the disk, which the tree finds in calls and beside them. The tree would end the process by default. It may go
// on: whatever reads what is damaged has an error.
func (b *Breakage) Listener() *pebble.EventListener {
	return &pebble.EventListener{
		DataCorruption: func(i pebble.DataCorruptionInfo) {
			b.Set(fmt.Errorf("%s is damaged: %w", i.Path, i.Details))
		},
		BackgroundError: func(err error) {
			if errors.Is(err, fs.ErrNotExist) {
				b.Set(fmt.Errorf("files or the directory were removed: %w", err))
			}
			time.Sleep(againAfter)
		},
	}
}

// Logger takes what the tree has to say.
type Logger struct {
	Log    *slog.Logger
	Broken *Breakage
}

// Infof is part of pebble.Logger.
func (l Logger) Infof(format string, args ...any) {
	l.Log.Debug("pebble: " + fmt.Sprintf(format, inLines(args)...))
}

// Errorf is part of pebble.Logger.
func (l Logger) Errorf(format string, args ...any) {
	l.Log.Warn("pebble: " + fmt.Sprintf(format, inLines(args)...))
}

// Fatalf must not return: the tree cannot go on.
func (l Logger) Fatalf(format string, args ...any) {
	why := fmt.Errorf(format, inLines(args)...)
	l.Broken.Set(why)
	if called() {
		panic(fatal{why}) // to who called
	}
	runtime.Goexit()
}

// inLines has errors be lines: the tree asks for them with stack traces (%+v).
func inLines(args []any) []any {
	out := slices.Clone(args)
	for n, arg := range out {
		if err, ok := arg.(error); ok {
			out[n] = err.Error()
		}
	}
	return out
}

// called says whether this goroutine is in a call of a method of a database, and none of the tree's own.
func called() bool {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		frame, more := frames.Next()
		if strings.Contains(frame.Function, "internal/store/pebble.(*") || strings.Contains(frame.Function, "internal/store/past.(*") {
			return true
		}
		if !more {
			return false
		}
	}
}
