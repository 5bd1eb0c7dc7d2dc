package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kanzen-io/kanzen/bench/side"
)

var watchSection = section{"Watch fan-out", "Latency is the time from sending a write to having read its event, with one write every 20 ms. The other rows were measured with up to 8 events in flight. Processor time includes the write, once for all watchers."}

const (
	pace     = 20 * time.Millisecond
	underWay = 8 // events that not every watcher has yet, while going as fast as possible
	// eventTimeout is how long the slowest watcher may take after the last write.
	eventTimeout = time.Minute
)

// fanOut is a number of watchers and what they have seen of the marks: writes
// numbered by the annotation they set.
type fanOut struct {
	base    int            // the number of mark 0: one that was used before would change nothing
	sent    []atomic.Int64 // when mark i was sent, in nanoseconds after began
	left    []atomic.Int64 // how many watchers have yet to see it
	seen    chan int       // marks that all have seen
	began   time.Time
	mu      sync.Mutex
	latency []time.Duration
	event   []byte // the first
}

// fanOutCost is what deliveries to many watchers cost.
type fanOutCost struct {
	perSecond float64       // deliveries, as fast as the slowest watcher keeps up
	cpu       float64       // µs of processor time each, with the delivery's share of the write
	p50, p99  time.Duration // latency, at a pace
	event     []byte        // one of them
}

// watch measures the fan-out to all watchers, over a number of connections, if it is wanted.
func (b *bench) watch(ctx context.Context, s *side.Side, connections int) error {
	name, row := watchName, fmt.Sprintf("%d watchers, a connection each: ", b.watchers)
	if connections < b.watchers {
		name, row = watchSharedName, fmt.Sprintf("%d watchers on %d connections: ", b.watchers, connections)
	}
	if !b.wants(name) {
		return nil
	}
	cost, err := b.fanOut(ctx, s, b.watchers, connections, b.events, name)
	if err != nil {
		return fmt.Errorf("%s: %w%s", name, err, s.Logs())
	}
	if s.Name != side.Bare {
		if err := os.WriteFile(filepath.Join(b.bodies, side.BareEvent), cost.event, 0o600); err != nil {
			return err
		}
	}
	b.results.addHigher(watchSection, row+"deliveries per second", "", s.Name, cost.perSecond)
	b.results.add(watchSection, row+"processor time per delivery", "µs", s.Name, cost.cpu)
	b.results.add(watchSection, row+"latency, median", "ms", s.Name, ms(cost.p50))
	b.results.add(watchSection, row+"latency, 99th percentile", "ms", s.Name, ms(cost.p99))
	return nil
}

// fanOut measures how writes reach a number of watchers that share a number of connections. A profile of it, if profiles are
// taken, is called name.
func (b *bench) fanOut(ctx context.Context, s *side.Side, watchers, connections, events int, name string) (cost fanOutCost, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)

	version, err := currentVersion(ctx, s)
	if err != nil {
		return cost, err
	}
	paced := max(events/4, 1)
	total := paced + events
	f := &fanOut{base: b.marks, sent: make([]atomic.Int64, total), left: make([]atomic.Int64, total), seen: make(chan int, total), began: time.Now()}
	b.marks += total
	for i := range f.left {
		f.left[i].Store(int64(watchers))
	}
	clients := make([]*side.Client, connections)
	for i := range clients {
		clients[i] = s.Client()
		defer clients[i].Close()
	}
	for i := range watchers {
		// One after the other, so that those that share a client find its connection open.
		res, err := clients[i%connections].Open(ctx, side.Request{Method: http.MethodGet, Path: podsPath + "?watch=1&resourceVersion=" + version})
		if err != nil {
			return cost, err
		}
		wg.Go(func() {
			defer res.Body.Close()
			if err := f.follow(res.Body); ctx.Err() == nil {
				cancel(fmt.Errorf("a watch ended: %w", err))
			}
		})
	}
	if err := f.write(ctx, s, 0, paced, b.pods, 1, pace); err != nil {
		return cost, err
	}
	latency := f.latencies()
	cost.p50, cost.p99, cost.event = side.Percentile(latency, 50), side.Percentile(latency, 99), f.event

	var profiled <-chan error
	if b.profiles != "" && s.Name != side.Bare {
		profiled = b.startProfile(ctx, s, name)
	}
	before, err := s.CPU()
	if err != nil {
		return cost, err
	}
	began := time.Now()
	if err := f.write(ctx, s, paced, total, b.pods, underWay, 0); err != nil {
		return cost, err
	}
	wall := time.Since(began)
	after, err := s.CPU()
	if err != nil {
		return cost, err
	}
	deliveries := float64(events * watchers)
	cost.cpu, cost.perSecond = float64((after-before).Microseconds())/deliveries, deliveries/wall.Seconds()
	progress("%s: %s: %d watchers, %d connections: %.0f deliveries, %.1f µs of CPU each, %.0f/s, median %.2f ms, p99 %.2f ms", s.Name, name,
		watchers, connections, deliveries, cost.cpu, cost.perSecond, ms(cost.p50), ms(cost.p99))
	if profiled != nil {
		return cost, <-profiled
	}
	return cost, nil
}

// write makes the marks from begin to end, with a number of them under way and
// at a pace, and waits until all watchers have seen them all.
func (f *fanOut) write(ctx context.Context, s *side.Side, begin, end, pods, underWay int, pace time.Duration) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, underWay)
	c := s.Client()
	defer c.Close()
	timeout := time.NewTimer(eventTimeout)
	defer timeout.Stop()
	due := time.Now()
	for i, seen := begin, 0; seen < end-begin; {
		var free chan<- struct{} // nil, and never ready, when all is sent
		if i < end {
			free = slots
		}
		select {
		case free <- struct{}{}:
			if err := side.Sleep(ctx, time.Until(due)); err != nil {
				return context.Cause(ctx)
			}
			due = time.Now().Add(pace)
			mark := i
			f.sent[mark].Store(int64(time.Since(f.began)))
			wg.Go(func() {
				if err := c.Do(ctx, annotate(f.base+mark, pods, marker), io.Discard); err != nil {
					cancel(err)
				}
			})
			i++
		case <-f.seen:
			<-slots
			seen++
			timeout.Reset(eventTimeout)
		case <-timeout.C:
			return errors.New("the watchers wait for an event that does not come")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	wg.Wait() // an event may be faster than the answer to its write
	return nil
}

// follow reads events until the stream ends.
func (f *fanOut) follow(stream io.Reader) error {
	lines := bufio.NewReaderSize(stream, 64<<10)
	prefix := []byte(`"` + marker + `":"`) // in managedFields the name begins with f:
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return err
		}
		_, after, ok := bytes.Cut(line, prefix)
		if !ok {
			return fmt.Errorf("an event without a mark: %.200s", line)
		}
		digits, _, _ := bytes.Cut(after, []byte{'"'})
		mark, err := strconv.Atoi(string(digits))
		mark -= f.base
		if err != nil || mark < 0 || mark >= len(f.sent) {
			return fmt.Errorf("not a mark of this watch: %.20s", digits)
		}
		took := time.Since(f.began) - time.Duration(f.sent[mark].Load())
		f.mu.Lock()
		f.latency = append(f.latency, took)
		if f.event == nil {
			f.event = bytes.Clone(line)
		}
		f.mu.Unlock()
		if f.left[mark].Add(-1) == 0 {
			f.seen <- mark
		}
	}
}

// latencies are those of all deliveries so far.
func (f *fanOut) latencies() []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]time.Duration(nil), f.latency...)
}

// currentVersion is the resource version to watch from.
func currentVersion(ctx context.Context, s *side.Side) (string, error) {
	c := s.Client()
	defer c.Close()
	var body bytes.Buffer
	if err := c.Do(ctx, side.Request{Method: http.MethodGet, Path: podsPath + "?limit=1"}, &body); err != nil {
		return "", err
	}
	var list struct {
		Metadata struct{ ResourceVersion string }
	}
	err := json.Unmarshal(body.Bytes(), &list)
	return list.Metadata.ResourceVersion, err
}
