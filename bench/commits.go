package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/sys/unix"

	"github.com/kanzen-io/kanzen/bench/side"
)

// commits is what a process is told on its standard input that does nothing but commit to Pebble.
type commits struct {
	Value   []byte
	Clients int
	// Keys is how many keys the commits go over; 0: each has a key of its own.
	Keys int
	// CPU is how much processor time to use at least, and Count how many commits to make at least.
	CPU   time.Duration
	Count int
}

// committed is what it answers.
type committed struct {
	Took      []time.Duration
	CPU, Wall time.Duration
}

// measureCommits commits what the loads wrote to a bare Pebble: what of a write is the write itself, on that engine. Each commit sets the value
// under one key and its place under another, as a log of revisions does, and waits for the disk.
func (b *bench) measureCommits(ctx context.Context) error {
	for _, l := range loads(b.pods) {
		value := b.stored[l.name]
		if len(value) == 0 {
			continue
		}
		c, err := b.commit(ctx, commits{Value: value, Clients: l.clients, Keys: l.keys, CPU: b.minCPU / 5, Count: 3000})
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		progress("%s: %s: %d commits, %.3f ms of CPU each", side.Commit, l.name, len(c.Took), cost{c.Took, c.CPU, c.Wall}.each())
		b.results.addLoad(side.Commit, l, cost{c.Took, c.CPU, c.Wall})
	}
	return nil
}

// commit has another process of this program do it, so that nothing else counts.
func (b *bench) commit(ctx context.Context, what commits) (done committed, err error) {
	dir, err := os.MkdirTemp("", "kanzen-bench-")
	if err != nil {
		return done, err
	}
	defer os.RemoveAll(dir)
	in, err := json.Marshal(what)
	if err != nil {
		return done, err
	}
	cmd := exec.CommandContext(ctx, b.programs.Self, "-commits", dir)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return done, err
	}
	return done, json.Unmarshal(out, &done)
}

// serveCommits is that other process.
func serveCommits(ctx context.Context, dir string, in io.Reader, out io.Writer) (err error) {
	c := committer{}
	if err := json.NewDecoder(in).Decode(&c.what); err != nil {
		return err
	}
	if c.db, err = pebble.Open(dir, &pebble.Options{Logger: quietly{}}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.db.Close()) }()
	var done committed
	before, began := ownTime(), time.Now()
	for done.CPU < c.what.CPU || len(done.Took) < c.what.Count {
		took, err := c.some(ctx)
		if err != nil {
			return err
		}
		done.Took, done.CPU = append(done.Took, took...), ownTime()-before
	}
	done.Wall = time.Since(began)
	return json.NewEncoder(out).Encode(done)
}

// committer commits to a tree.
type committer struct {
	what commits
	db   *pebble.DB
	next atomic.Int64
}

// some has each client make a hundred commits, and returns how long each took.
func (c *committer) some(ctx context.Context) ([]time.Duration, error) {
	took := make([][]time.Duration, c.what.Clients)
	errs := make([]error, c.what.Clients)
	var all sync.WaitGroup
	for n := range c.what.Clients {
		all.Go(func() {
			for range 100 {
				t, err := c.one()
				if errs[n] = errors.Join(err, ctx.Err()); errs[n] != nil {
					return
				}
				took[n] = append(took[n], t)
			}
		})
	}
	all.Wait()
	return slices.Concat(took...), errors.Join(errs...)
}

// one makes a commit, and waits for the disk.
func (c *committer) one() (time.Duration, error) {
	n := uint64(c.next.Add(1))
	at := n
	if c.what.Keys > 0 {
		at %= uint64(c.what.Keys)
	}
	began := time.Now()
	batch := c.db.NewBatch()
	defer batch.Close()
	key, revision := fmt.Appendf(nil, "/registry/pods/%s/object-%07d", namespace, at), binary.BigEndian.AppendUint64(nil, n)
	err := errors.Join(batch.Set(revision, c.what.Value, nil), batch.Set(key, revision, nil))
	if err == nil {
		err = batch.Commit(pebble.Sync)
	}
	return time.Since(began), err
}

// ownTime is the processor time of this process.
func ownTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		return 0 // the kernel has this clock
	}
	return time.Duration(t.Nano())
}

// quietly logs nothing.
type quietly struct{}

func (quietly) Infof(string, ...any)  {}
func (quietly) Errorf(string, ...any) {}
func (quietly) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}
