package recorder

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kanzen-io/kanzen/internal/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/rotate"
)

// Disk keeps records in files, a line of JSON each, without values of objects. Only their owner may read them.
type Disk struct {
	dir     string
	log     *slog.Logger
	file    *rotate.File
	queue   chan *v1alpha1.Record
	dropped atomic.Int64
	warned  atomic.Bool
}

// DiskConfig says where records are kept and for how long.
type DiskConfig struct {
	Dir  string
	Size int64 // bytes of all files
	Age  time.Duration
	Log  *slog.Logger
}

const (
	diskFile = "requests.jsonl"
	// diskFiles is the number of files over which the size is spread; the oldest is removed as a whole.
	diskFiles = 8
	// diskQueue is how many records may wait for the disk.
	diskQueue = 4096
	mebibyte  = 1 << 20
)

// OpenDisk makes the directory.
func OpenDisk(c DiskConfig) (*Disk, error) {
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, err
	}
	d := &Disk{dir: c.Dir, log: c.Log, queue: make(chan *v1alpha1.Record, diskQueue)}
	d.file = &rotate.File{Path: filepath.Join(c.Dir, diskFile), MaxSize: max(mebibyte, c.Size/diskFiles), MaxBackups: diskFiles - 1, MaxAge: c.Age}
	return d, nil
}

// write gives a record to the writer. A disk that is too slow loses records; requests never wait for it.
func (d *Disk) write(rec *v1alpha1.Record) {
	if d == nil {
		return
	}
	select {
	case d.queue <- rec:
	default:
		d.dropped.Add(1)
	}
}

func (d *Disk) lost() int64 {
	if d == nil {
		return 0
	}
	return d.dropped.Load()
}

// Run writes records until ctx ends, and then those that wait.
func (d *Disk) Run(ctx context.Context) error {
	defer d.file.Close()
	for {
		select {
		case rec := <-d.queue:
			d.put(rec)
		case <-ctx.Done():
			for {
				select {
				case rec := <-d.queue:
					d.put(rec)
				default:
					return nil
				}
			}
		}
	}
}

func (d *Disk) put(rec *v1alpha1.Record) {
	b, err := json.Marshal(stored(rec))
	if err == nil {
		_, err = d.file.Write(append(b, '\n'))
	}
	if err == nil {
		d.warned.Store(false)
		return
	}
	d.dropped.Add(1)
	if !d.warned.Swap(true) {
		d.log.Warn("the flight recorder cannot write to its directory", "dir", d.dir, "error", err)
	}
}

// Load takes up what an earlier process has kept. What cannot be read is left out.
func (r *Recorder) Load(ctx context.Context) error {
	if r.Disk == nil {
		return nil
	}
	files, err := os.ReadDir(r.Disk.dir)
	if err != nil {
		return err
	}
	var names []string
	for _, f := range files {
		if name := f.Name(); strings.HasPrefix(name, "requests") && strings.HasSuffix(name, ".jsonl") && name != diskFile {
			names = append(names, name) // with the time in the name
		}
	}
	slices.Sort(names)
	var errs []error
	for _, name := range append(names, diskFile) {
		if err := r.load(ctx, filepath.Join(r.Disk.dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// maxLine bounds a line of a file.
const maxLine = 4 << 20

func (r *Recorder) load(ctx context.Context, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewReaderSize(io.LimitReader(f, 1<<40), 64<<10)
	scan := bufio.NewScanner(lines)
	scan.Buffer(nil, maxLine)
	for n := 0; scan.Scan(); n++ {
		if n%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		rec := &v1alpha1.Record{}
		if json.Unmarshal(scan.Bytes(), rec) != nil || rec.Verb == "" {
			continue // the last line of a process that was killed
		}
		rec = stored(rec) // a file of an earlier version may have values
		r.put(rec)
		r.remember(rec, rec.Changes)
	}
	if err := scan.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
