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
	var what commits
	if err := json.NewDecoder(in).Decode(&what); err != nil {
		return err
	}
	db, err := pebble.Open(dir, &pebble.Options{Logger: quietly{}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var next atomic.Int64
	one := func() (time.Duration, error) {
		n := uint64(next.Add(1))
		at := n
		if what.Keys > 0 {
			at %= uint64(what.Keys)
		}
		began := time.Now()
		batch := db.NewBatch()
		defer batch.Close()
		key := fmt.Appendf(nil, "/registry/pods/%s/object-%07d", namespace, at)
		if err := batch.Set(binary.BigEndian.AppendUint64(nil, n), what.Value, nil); err != nil {
			return 0, err
		}
		if err := batch.Set(key, binary.BigEndian.AppendUint64(nil, n), nil); err != nil {
			return 0, err
		}
		err := batch.Commit(pebble.Sync)
		return time.Since(began), err
	}
	var done committed
	before, began := ownTime(), time.Now()
	for done.CPU < what.CPU || len(done.Took) < what.Count {
		took := make([][]time.Duration, what.Clients)
		errs := make([]error, what.Clients)
		var all sync.WaitGroup
		for n := range what.Clients {
			all.Go(func() {
				for range 100 {
					t, err := one()
					if err != nil || ctx.Err() != nil {
						errs[n] = errors.Join(err, ctx.Err())
						return
					}
					took[n] = append(took[n], t)
				}
			})
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		done.Took = append(done.Took, slices.Concat(took...)...)
		done.CPU = ownTime() - before
	}
	done.Wall = time.Since(began)
	return json.NewEncoder(out).Encode(done)
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
