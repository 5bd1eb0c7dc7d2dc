package audit

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/rotate"
)

// LogFile is the configuration of a log file and its rotation.
type LogFile struct {
	// Path of the file; "-" is the standard output.
	Path string
	// MaxSize is the size in megabytes at which the file is rotated; 0: never.
	MaxSize int
	// MaxAge (in days) and MaxBackups limit the rotated files that are kept; 0: no limit.
	MaxAge, MaxBackups int
	// Compress compresses rotated files with gzip.
	Compress bool
}

// Open creates the file and its directory, accessible only to their owner.
func (f LogFile) Open() (io.WriteCloser, error) {
	if f.Path == "-" {
		return stdout{}, nil
	}
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(f.Path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil || f.MaxSize == 0 {
		return file, err
	}
	if err := file.Close(); err != nil {
		return nil, err
	}
	return &rotate.File{Path: f.Path, MaxSize: int64(f.MaxSize) << 20, MaxAge: time.Duration(f.MaxAge) * 24 * time.Hour, MaxBackups: f.MaxBackups, Compress: f.Compress}, nil
}

// stdout is the standard output with a Close that does nothing.
type stdout struct{}

func (stdout) Write(p []byte) (int, error) { return os.Stdout.Write(p) }
func (stdout) Close() error                { return nil }

// Log writes events to a file, one per line. Events that arrive during a write go together into the next write.
type Log struct {
	clock  clock.WithDelayedExecution
	encode func(b []byte, ev *auditv1.Event) []byte
	lost   func(plugin string, err error, events []*auditv1.Event)

	mu      sync.Mutex
	next    *lines // the next write; guarded by mu
	pending bool   // a timer will write next; guarded by mu

	// writing is locked before mu, and held while the file is written.
	writing sync.Mutex
	out     io.WriteCloser // guarded by writing
	spare   []byte         // buffer for reuse; guarded by writing
}

// lines are written together.
type lines struct {
	text    []byte // guarded by Log.mu while it is Log.next, then by Log.writing
	written bool   // guarded by Log.writing
	err     error  // result of the write; guarded by writing
}

// NewLog creates a log in the format "json" or "legacy".
func NewLog(out io.WriteCloser, format string, clk clock.WithDelayedExecution, r *Reporter) (*Log, error) {
	l := &Log{out: out, clock: clk, lost: r.lost, encode: appendEvent, next: &lines{}}
	switch format {
	case "json":
	case "legacy":
		l.encode = legacyLine
	default:
		return nil, fmt.Errorf("unknown audit log format %q", format)
	}
	return l, nil
}

// Process returns when the events are written to the file.
func (l *Log) Process(events ...*auditv1.Event) bool {
	l.mu.Lock()
	l.addLocked(events)
	with := l.next
	l.mu.Unlock()
	// Let requests that are about to end add their events to the same write.
	runtime.Gosched()
	err := l.write(with)
	if err != nil {
		l.lost("log", err, events)
	}
	return err == nil
}

// lateness bounds the delay of the write of an event that no request waits for.
const lateness = 10 * time.Millisecond

// Soon adds events to the next write, which happens at the latest after lateness.
func (l *Log) Soon(events ...*auditv1.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addLocked(events)
	if !l.pending {
		l.pending = true
		l.clock.AfterFunc(lateness, func() { l.late() })
	}
}

// late writes the events of Soon unless another call has written them.
func (l *Log) late() {
	l.mu.Lock()
	l.pending = false
	last := l.next
	l.mu.Unlock()
	if err := l.write(last); err != nil {
		l.lost("log", err, nil)
	}
}

func (l *Log) addLocked(events []*auditv1.Event) {
	for _, ev := range events {
		l.next.text = append(l.encode(l.next.text, ev), '\n')
	}
}

// maxSpare bounds the buffer that is kept between writes, in bytes.
const maxSpare = 256 << 10

// write returns when the given lines are written, by this call or another.
func (l *Log) write(ours *lines) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if ours.written {
		return ours.err
	}
	l.mu.Lock()
	l.next = &lines{text: l.spare}
	l.mu.Unlock()
	l.spare = nil
	ours.written = true
	if len(ours.text) > 0 {
		_, ours.err = l.out.Write(ours.text)
	}
	if cap(ours.text) <= maxSpare {
		l.spare = ours.text[:0]
	}
	ours.text = nil
	return ours.err
}

// Close writes the remaining events and closes the file.
func (l *Log) Close() error {
	l.late()
	l.writing.Lock()
	defer l.writing.Unlock()
	return l.out.Close()
}

// Reporter reports lost events: in the log with what they were about, and in a metric.
type Reporter struct {
	Log     *slog.Logger
	Metrics *Metrics
}

func (r *Reporter) lost(plugin string, err error, events []*auditv1.Event) {
	r.Metrics.lost(plugin, events)
	var text []byte
	for _, ev := range events {
		text = append(legacyLine(text, ev), '\n')
	}
	r.Log.Error("audit events were lost", "plugin", plugin, "err", err, "count", len(events), "events", string(text))
}

// Blocking makes a request wait until its events are stored. Strict also rejects a request whose events cannot be
// stored.
type Blocking struct {
	Backend
	Strict bool
}

// Process is part of Backend.
//
// The event RequestReceived is written at the latest together with ResponseComplete, for which the response waits, so
// it costs no system call of its own. A strict backend must store it before the request is served.
func (b Blocking) Process(events ...*auditv1.Event) bool {
	if log, ok := b.Backend.(*Log); ok && !b.Strict && len(events) == 1 && events[0].Stage == auditv1.StageRequestReceived {
		log.Soon(events...)
		return true
	}
	return b.Backend.Process(events...) || !b.Strict
}

// Union passes events to several backends.
type Union []Backend

// Process is part of Backend.
func (u Union) Process(events ...*auditv1.Event) bool {
	ok := true
	for _, b := range u {
		ok = b.Process(events...) && ok
	}
	return ok
}

// Close closes all backends.
func (u Union) Close() error {
	var errs []error
	for _, b := range u {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}
