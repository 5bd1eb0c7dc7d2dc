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

	"gopkg.in/natefinch/lumberjack.v2"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/clock"
)

// LogFile is a file that grows, and is put aside when it has grown enough.
type LogFile struct {
	// Path of the file; "-" is the standard output.
	Path string
	// MaxSize in megabytes from which a file is put aside; 0: never.
	MaxSize int
	// MaxAge in days and MaxBackups after which files put aside are removed; 0: never.
	MaxAge, MaxBackups int
	// Compress files put aside by gzip.
	Compress bool
}

// Open makes the file and its directory, for its owner alone.
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
	return &lumberjack.Logger{Filename: f.Path, MaxSize: f.MaxSize, MaxAge: f.MaxAge, MaxBackups: f.MaxBackups, Compress: f.Compress}, nil
}

// stdout is not closed by us.
type stdout struct{}

func (stdout) Write(p []byte) (int, error) { return os.Stdout.Write(p) }
func (stdout) Close() error                { return nil }

// Log writes events to a file, a line each. Events that come while others are
// being written are written together.
type Log struct {
	clock  clock.WithDelayedExecution
	encode func(b []byte, ev *auditv1.Event) []byte
	lost   func(plugin string, err error, events []*auditv1.Event)

	mu      sync.Mutex
	next    *lines // to be written; guarded by mu
	pending bool   // they will be, in a moment; guarded by mu

	// writing is taken before mu, and held while the file is written.
	writing sync.Mutex
	out     io.WriteCloser // guarded by writing
	spare   []byte         // room for lines; guarded by writing
}

// lines are written at once.
type lines struct {
	text    []byte // guarded by Log.mu while it is Log.next, then by Log.writing
	written bool   // guarded by Log.writing
	err     error  // of writing them; guarded by Log.writing
}

// NewLog makes a log in a format: "json" or "legacy".
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
	// Requests that are about to end too, end first, and are in the same write.
	runtime.Gosched()
	err := l.write(with)
	if err != nil {
		l.lost("log", err, events)
	}
	return err == nil
}

// lateness is how long, at most, an event that nobody waits for is not in the
// file yet.
const lateness = 10 * time.Millisecond

// Soon has events written with the next ones, or after a moment.
func (l *Log) Soon(events ...*auditv1.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addLocked(events)
	if !l.pending {
		l.pending = true
		l.clock.AfterFunc(lateness, func() { l.late() })
	}
}

// late writes what nobody has written in the meantime.
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

// maxSpare bounds the memory that is kept from one write to the next, in bytes.
const maxSpare = 256 << 10

// write returns when some lines are written, by itself or by another call.
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

// Close writes what is left and closes the file.
func (l *Log) Close() error {
	l.late()
	l.writing.Lock()
	defer l.writing.Unlock()
	return l.out.Close()
}

// Reporter tells of events that are lost: in the log with what they were
// about, and in a metric.
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

// Blocking makes requests wait for their events to be kept. Strict refuses
// those whose events are not.
type Blocking struct {
	Backend
	Strict bool
}

// Process is part of Backend.
//
// That a request has come is written at the latest with its end, which its
// answer waits for, and costs no system call of its own; unless the backend
// is strict, where it must be known to be kept before the request is served.
func (b Blocking) Process(events ...*auditv1.Event) bool {
	if log, ok := b.Backend.(*Log); ok && !b.Strict && len(events) == 1 && events[0].Stage == auditv1.StageRequestReceived {
		log.Soon(events...)
		return true
	}
	return b.Backend.Process(events...) || !b.Strict
}

// Union hands events to several backends.
type Union []Backend

// Process is part of Backend.
func (u Union) Process(events ...*auditv1.Event) bool {
	ok := true
	for _, b := range u {
		ok = b.Process(events...) && ok
	}
	return ok
}

// Close closes all of them.
func (u Union) Close() error {
	var errs []error
	for _, b := range u {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}
