package recorder

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/rotate"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// Disk keeps records in files, a line of JSON each, without values of objects. Only their owner may read them.
type Disk struct {
	dir     string
	log     *slog.Logger
	clock   clock.Clock
	file    *rotate.File
	queue   chan *v1alpha1.Record
	dropped atomic.Int64
	warned  atomic.Bool

	// old are the files that earlier processes have moved aside, and newest is the one that this process goes on with, up to a size.
	old        []string
	newest     *os.File
	newestSize int64
	// torn says that the newest file ends within a line: its process was killed, or the disk was full.
	torn bool
}

// DiskConfig says where records are kept and for how long.
type DiskConfig struct {
	Dir   string
	Size  int64 // bytes of all files
	Age   time.Duration
	Clock clock.Clock
	Log   *slog.Logger
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
	d := &Disk{dir: c.Dir, log: c.Log, clock: c.Clock, queue: make(chan *v1alpha1.Record, diskQueue)}
	d.file = &rotate.File{Path: filepath.Join(c.Dir, diskFile), MaxSize: max(mebibyte, c.Size/diskFiles), MaxBackups: diskFiles - 1, MaxAge: c.Age}
	return d, d.look()
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

// gather is how long a record waits for others, which are written with it: each write to the file costs as much as making a line.
const gather = 50 * time.Millisecond

// Run writes records until ctx ends, and then those that wait.
func (d *Disk) Run(ctx context.Context) error {
	defer d.file.Close()
	var lines line
	if d.torn {
		lines = append(lines, '\n')
	}
	for {
		var first *v1alpha1.Record
		select {
		case first = <-d.queue:
			select {
			case <-d.clock.After(gather):
			case <-ctx.Done():
			}
		case <-ctx.Done():
		}
		lines = d.put(lines, first)
		if ctx.Err() != nil {
			return nil
		}
	}
}

// diskChunk is how much is written at a time.
const diskChunk = 64 << 10

// put writes a record, if there is one, and those that wait. It returns the memory of lines, for the next ones.
func (d *Disk) put(lines line, rec *v1alpha1.Record) line {
	count := int64(0)
	for {
		if rec != nil {
			count++
			lines = append(lines.record(rec), '\n')
		}
		if len(lines) >= diskChunk {
			d.flush(lines, count)
			lines, count = lines[:0], 0
		}
		select {
		case rec = <-d.queue:
		default:
			d.flush(lines, count)
			return lines[:0]
		}
	}
}

func (d *Disk) flush(lines line, count int64) {
	if len(lines) == 0 {
		return
	}
	if _, err := d.file.Write(lines); err != nil {
		d.failed(count, err)
	} else {
		d.warned.Store(false)
	}
}

func (d *Disk) failed(count int64, err error) {
	d.dropped.Add(count)
	if !d.warned.Swap(true) {
		d.log.Warn("the flight recorder cannot write to its directory", "dir", d.dir, "error", err)
	}
}

// muchRead is from how many bytes on memory is given back once they are read.
const muchRead = 1 << 20

// Load takes up what an earlier process has kept. What cannot be read is left out. Requests may be served meanwhile: what is read is
// older than all that they leave, and is put before it.
func (r *Recorder) Load(ctx context.Context) error {
	defer close(r.loaded)
	if r.Disk == nil {
		return nil
	}
	before := New(Config{Memory: r.Memory, Slow: r.Slow, Sample: r.Sample, Clock: r.Clock, Log: r.Log})
	before.history.seed = r.history.seed
	var errs []error
	read := int64(0)
	take := func(lines io.Reader) error {
		n, err := before.load(ctx, lines)
		read += n
		return err
	}
	for _, path := range r.Disk.newestOf(r.Memory) {
		f, err := os.Open(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // it was too old
		}
		if err == nil {
			err = errors.Join(take(f), f.Close())
		}
		errs = append(errs, err)
	}
	if f := r.Disk.newest; f != nil {
		errs = append(errs, take(io.LimitReader(f, r.Disk.newestSize)), f.Close())
	}
	for class := range r.rings {
		r.rings[class].precede(&before.rings[class])
	}
	r.history.precede(before.history)
	if read > muchRead {
		debug.FreeOSMemory() // what lines were decoded to is several times what is kept, and a server at rest collects nothing for minutes
	}
	return errors.Join(errs...)
}

// look finds the files of earlier processes. The newest is appended to from now on, and may be moved aside: it is read as far as it
// goes now.
func (d *Disk) look() error {
	all, err := os.ReadDir(d.dir)
	if err != nil {
		return err
	}
	for _, f := range all {
		if name := f.Name(); strings.HasPrefix(name, "requests") && strings.HasSuffix(name, ".jsonl") && name != diskFile {
			d.old = append(d.old, filepath.Join(d.dir, name)) // with the time in the name
		}
	}
	slices.Sort(d.old)
	f, err := os.Open(filepath.Join(d.dir, diskFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	d.newest, d.newestSize = f, info.Size()
	last := make([]byte, 1)
	_, err = f.ReadAt(last, d.newestSize-1)
	d.torn = err == nil && last[0] != '\n'
	return nil
}

// newestOf returns the files that were moved aside, as far as they are, with the newest, no larger than what memory has room for: more
// would cost the start seconds, and be forgotten mostly.
func (d *Disk) newestOf(memory int64) []string {
	from, bytes := len(d.old), d.newestSize
	for from > 0 {
		info, err := os.Stat(d.old[from-1])
		if err != nil || bytes+info.Size() > memory {
			break
		}
		from, bytes = from-1, bytes+info.Size()
	}
	return d.old[from:]
}

// awaitLoaded waits until what an earlier process has kept is there.
func (r *Recorder) awaitLoaded(ctx context.Context) {
	if r.Disk == nil {
		return
	}
	select {
	case <-r.loaded:
	case <-ctx.Done():
	}
}

// maxLine bounds a line of a file. A longer one is no record: a disk may have lost what was in it.
const maxLine = 2 << 20

// load takes up the records of a file, and returns how many bytes it has read.
func (r *Recorder) load(ctx context.Context, from io.Reader) (read int64, err error) {
	in, skip := bufio.NewReaderSize(from, maxLine), false
	for n := 0; ; n++ {
		if n%256 == 0 && ctx.Err() != nil {
			return read, ctx.Err()
		}
		line, err := in.ReadSlice('\n')
		read += int64(len(line))
		isPart := errors.Is(err, bufio.ErrBufferFull)
		if !isPart && !skip {
			r.takeLine(line)
		}
		skip = isPart
		if errors.Is(err, io.EOF) {
			return read, nil
		}
		if err != nil && !isPart {
			return read, err
		}
	}
}

// takeLine takes up the record of a line, if there is one: a line may be damaged, or the last one of a process that was killed.
func (r *Recorder) takeLine(line []byte) {
	rec := &v1alpha1.Record{}
	if json.Unmarshal(line, rec) == nil && rec.Verb != "" {
		r.Take(stored(rec)) // a file of an earlier version may have values
	}
}
