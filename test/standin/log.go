package standin

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// logFile is the log of a container: lines of the form "TIME STREAM F TEXT", as container runtimes write them.
type logFile struct {
	path string

	mu      sync.Mutex
	file    *os.File      // guarded by mu
	rest    []byte        // a line that has not ended; guarded by mu
	changed chan struct{} // closed when there is more; guarded by mu
	ended   bool          // guarded by mu
}

func newLogFile(path string) (*logFile, error) {
	f, err := os.Create(path)
	return &logFile{path: path, file: f, changed: make(chan struct{})}, err
}

func (l *logFile) write(stream string, p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok {
			break
		}
		fmt.Fprintf(l.file, "%s %s F %s\n", time.Now().UTC().Format(time.RFC3339Nano), stream, line)
		l.rest = rest
	}
	l.tell()
	return len(p), nil
}

// tell wakes readers. The caller holds mu.
func (l *logFile) tell() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// rotate renames the file and begins another.
func (l *logFile) rotate() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := os.Rename(l.path, l.path+".1"); err != nil {
		return err
	}
	f, err := os.Create(l.path)
	if err == nil {
		_ = l.file.Close()
		l.file = f
	}
	l.tell()
	return err
}

func (l *logFile) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.tell()
}

// state returns what tells of the next change, and whether there will be none.
func (l *logFile) state() (changed <-chan struct{}, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed, l.ended
}

// logQuery is what a request for a log asks for.
type logQuery struct {
	follow, timestamps bool
	tail, limit        int
	since              time.Time
}

func readLogQuery(r *http.Request) logQuery {
	q := logQuery{tail: -1, limit: -1, follow: r.FormValue("follow") == "true", timestamps: r.FormValue("timestamps") == "true"}
	if n, err := strconv.Atoi(r.FormValue("tailLines")); err == nil {
		q.tail = n
	}
	if n, err := strconv.Atoi(r.FormValue("limitBytes")); err == nil {
		q.limit = n
	}
	if n, err := strconv.Atoi(r.FormValue("sinceSeconds")); err == nil {
		q.since = time.Now().Add(-time.Duration(n) * time.Second)
	}
	if t, err := time.Parse(time.RFC3339, r.FormValue("sinceTime")); err == nil {
		q.since = t
	}
	return q
}

// logs serves the log of a container.
func (k *Kubelet) logs(w http.ResponseWriter, r *http.Request) {
	c := k.find(r)
	if c == nil {
		http.Error(w, "container not found", http.StatusNotFound)
		return
	}
	q, path := readLogQuery(r), c.log.path
	if r.FormValue("previous") == "true" {
		path += ".previous"
	}
	f, err := os.Open(path)
	if err != nil {
		http.Error(w, fmt.Sprintf("previous terminated container %q in pod %q not found", c.name, r.PathValue("pod")), http.StatusBadRequest)
		return
	}
	if q.follow {
		k.followers.Add(1)
		defer k.followers.Add(-1)
	}
	if err := q.send(w, r, f, c.log); err != nil && !errors.Is(err, errEnough) {
		panic(http.ErrAbortHandler)
	}
}

// send sends what there is and, if that is asked for, what comes.
func (q *logQuery) send(w http.ResponseWriter, r *http.Request, f *os.File, l *logFile) error {
	defer func() { _ = f.Close() }()
	changed, ended := l.state()
	lines := bufio.NewReader(f)
	var found []string
	for line, err := lines.ReadString('\n'); err == nil; line, err = lines.ReadString('\n') {
		found = append(found, line)
	}
	if q.tail >= 0 {
		found = slices.Clone(found[max(0, len(found)-q.tail):])
	}
	for _, line := range found {
		if err := q.line(w, line); err != nil {
			return err
		}
	}
	for q.follow && !ended {
		if err := http.NewResponseController(w).Flush(); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return r.Context().Err()
		}
		changed, ended = l.state()
		if err := q.more(w, lines); err != nil {
			return err
		}
		if next, err := os.Open(l.path); err == nil {
			if same(f, next) {
				_ = next.Close()
				continue
			}
			_ = f.Close()
			f, lines = next, bufio.NewReader(next)
			if err := q.more(w, lines); err != nil {
				return err
			}
		}
	}
	return nil
}

// more sends the lines that have come.
func (q *logQuery) more(w io.Writer, lines *bufio.Reader) error {
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil // whole lines are written
		}
		if err := q.line(w, line); err != nil {
			return err
		}
	}
}

func same(a, b *os.File) bool {
	x, err1 := a.Stat()
	y, err2 := b.Stat()
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

var errEnough = errors.New("enough bytes")

// line sends a line.
func (q *logQuery) line(w io.Writer, line string) error {
	at, text, _ := strings.Cut(line, " ")
	parts := strings.SplitN(text, " ", 3)
	if t, err := time.Parse(time.RFC3339Nano, at); err != nil || t.Before(q.since) || len(parts) < 3 {
		return nil
	}
	text = parts[2]
	if q.timestamps {
		text = at + " " + text
	}
	if q.limit >= 0 {
		text = text[:min(len(text), q.limit)]
		q.limit -= len(text)
	}
	if _, err := io.WriteString(w, text); err != nil {
		return err
	}
	if q.limit == 0 {
		return errEnough
	}
	return nil
}
