package audit

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"gopkg.in/natefinch/lumberjack.v2"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
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

// Log writes events to a file, a line each.
//
// Events that come while a line is being written are gathered and written
// together by whichever of their requests comes first: under load many lines
// cost one system call, and without load none waits.
type Log struct {
	out    io.WriteCloser
	encode func(b []byte, ev *auditv1.Event) []byte
	lost   func(plugin string, err error, events []*auditv1.Event)

	mu       sync.Mutex
	gathered *lines // those not being written; guarded by mu
	spare    []byte // to gather in, of an earlier write; guarded by mu
	writing  sync.Mutex
}

// lines are events written together.
type lines struct {
	data []byte
	done chan struct{} // closed when they are written; made by who waits for it
	err  error
}

// NewLog makes a log in a format: "json" or "legacy".
func NewLog(out io.WriteCloser, format string, r *Reporter) (*Log, error) {
	l := &Log{out: out, lost: r.lost, encode: appendEvent}
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
	g, first := l.gathered, false
	if g == nil {
		g, first = &lines{data: l.spare}, true
		l.gathered, l.spare = g, nil
	} else if g.done == nil {
		g.done = make(chan struct{})
	}
	for _, ev := range events {
		g.data = append(l.encode(g.data, ev), '\n')
	}
	l.mu.Unlock()
	if first {
		l.write()
	} else {
		<-g.done
	}
	if g.err != nil {
		l.lost("log", g.err, events)
		return false
	}
	return true
}

// write writes what has been gathered by the time that the file is free.
func (l *Log) write() {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	g := l.gathered
	l.gathered = nil
	l.mu.Unlock()
	_, g.err = l.out.Write(g.data)
	if g.done != nil { // nobody joins them any more
		close(g.done)
	}
	if cap(g.data) <= maxSpare {
		l.mu.Lock()
		l.spare = g.data[:0]
		l.mu.Unlock()
	}
	g.data = nil
}

// maxSpare bounds the memory that is kept from one write to the next, in bytes.
const maxSpare = 256 << 10

// Close closes the file.
func (l *Log) Close() error {
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
func (b Blocking) Process(events ...*auditv1.Event) bool {
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
