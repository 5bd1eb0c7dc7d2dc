package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kanzen-io/kanzen/bench/side"
)

// bench is what is measured, and how much of it.
type bench struct {
	programs side.Programs
	pods     int
	crds     int // definitions made on both sides
	crs      int // custom resources of the first of them
	manyCRDs int // definitions made on kanzen alone
	watchers int
	events   int
	marks    int // writes that watchers were to see, so far
	// minCPU is how much processor time a measurement covers at least, so that
	// little of it is what the side happened to do in the background.
	minCPU time.Duration
	quiet  time.Duration // before memory is read
	only   []string      // names of what to measure; empty: everything
	// profiles is where CPU profiles of the loads go; empty: none are taken.
	profiles string
	bodies   string            // what the bare server serves
	stored   map[string][]byte // by load: an object that it wrote, in protobuf
	results  *results
}

// names of the measures that are not loads.
const (
	startName  = "start"
	idleName   = "idle"
	memoryName = "memory"
	watchName  = "watch"
	endName    = "memory-end"

	watchSharedName = "watch-shared"
	// sharing is how many connections the watchers of that have.
	sharing = 4
)

func (b *bench) names() []string {
	names := append(b.firstNames(), crdsName)
	names = append(names, loadNames(customLoads(b.crs))...)
	for _, g := range b.guards("") {
		names = append(names, loadNames(g.loads)...)
	}
	return append(names, crdsManyName)
}

// firstNames are those of what measure measures. The rest is measured on servers of its own.
func (b *bench) firstNames() []string {
	return slices.Concat([]string{startName, idleName}, loadNames(loads(b.pods)), []string{memoryName, watchName, watchSharedName, endName})
}

func loadNames(all []load) []string {
	var names []string
	for _, l := range all {
		names = append(names, l.name)
	}
	return names
}

func (b *bench) wants(name string) bool {
	return len(b.only) == 0 || slices.Contains(b.only, name)
}

// run measures everything once, on both sides in the order given and then on
// the bare server.
func (b *bench) run(ctx context.Context, order []string) error {
	for _, name := range order {
		if err := b.measure(ctx, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := b.measureCustom(ctx, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := b.measureGuarded(ctx, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := b.measureMany(ctx); err != nil {
		return err
	}
	if files, err := os.ReadDir(b.bodies); err != nil {
		return err
	} else if len(files) > 0 {
		if err := b.measureBare(ctx); err != nil {
			return fmt.Errorf("%s: %w", side.Bare, err)
		}
	}
	if len(b.stored) > 0 {
		if err := b.measureEtcd(ctx); err != nil {
			return fmt.Errorf("%s: %w", side.Etcd, err)
		}
		if err := b.measureCommits(ctx); err != nil {
			return fmt.Errorf("%s: %w", side.Commit, err)
		}
	}
	return nil
}

// measure starts a side, measures it and stops it.
func (b *bench) measure(ctx context.Context, name string) error {
	if !b.wantsAny(b.firstNames()...) {
		return nil
	}
	s, err := side.Start(ctx, name, b.programs, side.Options{})
	if err != nil {
		return err
	}
	defer s.Stop()
	progress("%s: ready after %d ms", name, s.Ready.Milliseconds())
	b.results.add(memorySection, "from exec to ready", "ms", name, ms(s.Ready))
	if b.wants(idleName) {
		if err := b.memory(ctx, s, "resident memory, idle"); err != nil {
			return err
		}
	}
	if len(b.only) > 0 && !slices.ContainsFunc(b.only, func(n string) bool { return n != startName && n != idleName }) {
		return nil
	}
	if err := setUp(ctx, s); err != nil {
		return err
	}
	for _, l := range loads(b.pods) {
		if l.name == "create" && !b.wants(l.name) {
			err = b.fill(ctx, s, l) // everything else is about pods that are there
		} else if b.wants(l.name) && l.concerns(name) {
			err = b.load(ctx, s, l)
		}
		if err != nil {
			return fmt.Errorf("%s: %w%s", l.name, err, s.Logs())
		}
		if l.name == "patch-status" && b.wants(memoryName) {
			if err := b.memory(ctx, s, fmt.Sprintf("resident memory, %d pods", b.pods)); err != nil {
				return err
			}
		}
	}
	if name == side.Pebble {
		return nil // a watch is fed from memory on either engine
	}
	if err := b.watches(ctx, s); err != nil {
		return err
	}
	if b.wants(endName) {
		return b.memory(ctx, s, "resident memory, at the end of all loads")
	}
	return nil
}

// watches measures the fan-out over many connections and over few.
func (b *bench) watches(ctx context.Context, s *side.Side) error {
	for _, connections := range []int{b.watchers, sharing} {
		if err := b.watch(ctx, s, connections); err != nil {
			return err
		}
	}
	return nil
}

// measureBare gives the bare server the reads whose bytes it has, and the watches.
func (b *bench) measureBare(ctx context.Context) error {
	s, err := side.Start(ctx, side.Bare, b.programs, side.Options{Bodies: b.bodies})
	if err != nil {
		return err
	}
	defer s.Stop()
	for _, l := range loads(b.pods) {
		if l.bare == "" || !b.wants(l.name) {
			continue
		}
		l.request = func(int) side.Request { return side.Request{Method: http.MethodGet, Path: "/" + l.bare} }
		if err := b.load(ctx, s, l); err != nil {
			return fmt.Errorf("%s: %w%s", l.name, err, s.Logs())
		}
	}
	return b.watches(ctx, s)
}

// memory lets the side rest and reads its resident memory.
func (b *bench) memory(ctx context.Context, s *side.Side, row string) error {
	if err := side.Sleep(ctx, b.quiet); err != nil {
		return err
	}
	mib, err := s.RSS()
	if err != nil {
		return err
	}
	progress("%s: %s %.0f MiB", s.Name, row, mib)
	b.results.add(memorySection, row, "MiB", s.Name, mib)
	return nil
}

// loadAll gives a side some loads: those that are wanted, and creations in any case, because the other loads are about what they create.
func (b *bench) loadAll(ctx context.Context, s *side.Side, all []load) (err error) {
	for _, l := range all {
		if b.wants(l.name) && l.concerns(s.Name) {
			err = b.load(ctx, s, l)
		} else if l.once {
			err = b.fill(ctx, s, l)
		}
		if err != nil {
			return fmt.Errorf("%s: %w%s", l.name, err, s.Logs())
		}
	}
	return nil
}

// fill gives a load's first round without measuring it.
func (b *bench) fill(ctx context.Context, s *side.Side, l load) error {
	send := newSender(l, s)
	defer send.close()
	_, err := send.send(ctx, l.round)
	return err
}

// Sections of the report.
var (
	memorySection = section{"Start and memory", ""}
	cpuSection    = section{"Processor time per request", "User and system time of all processes of a side, from the kernel's accounting."}
	p50Section    = section{"Time per request, median", "Measured by the client, up to the last byte of the answer."}
	p99Section    = section{"Time per request, 99th percentile", ""}
	rateSection   = section{"Requests per second", "The sum over all clients. Each client sends its next request when the previous one is answered."}
)

// load gives a side a load and records what it took.
func (b *bench) load(ctx context.Context, s *side.Side, l load) (err error) {
	if l.before != nil {
		after, failed := l.before(ctx, s)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, after()) }()
	}
	send := newSender(l, s)
	defer send.close()
	if err := b.first(ctx, s, send); err != nil {
		return err
	}
	if err := b.keepStored(ctx, s, l); err != nil {
		return err
	}
	c, err := b.repeat(ctx, s, send)
	if err != nil {
		return err
	}
	b.results.addLoad(s.Name, l, c)
	return b.profile(ctx, s, send)
}

// cost is what the requests of a load took.
type cost struct {
	took      []time.Duration // each, as the client sees it
	cpu, wall time.Duration   // all together
}

// each is the milliseconds of processor time per request.
func (c cost) each() float64 { return ms(c.cpu) / float64(len(c.took)) }

// perSecond is how many requests were answered in a second.
func (c cost) perSecond() float64 { return float64(len(c.took)) / c.wall.Seconds() }

// repeat sends a load's requests until the side has used enough processor time.
func (b *bench) repeat(ctx context.Context, s *side.Side, send *sender) (c cost, err error) {
	l := send.load
	if _, err := send.send(ctx, l.warm); err != nil {
		return c, err
	}
	if err := side.Sleep(ctx, b.quiet/10); err != nil { // what the last load left to do
		return c, err
	}
	before, err := s.CPU()
	if err != nil {
		return c, err
	}
	began := time.Now()
	for end := l.warm; c.cpu < b.minCPU; {
		if end += l.round; l.once {
			end = l.round
		}
		t, err := send.send(ctx, end)
		if err != nil {
			return c, err
		}
		c.took = append(c.took, t...)
		now, err := s.CPU()
		if err != nil {
			return c, err
		}
		if c.cpu = now - before; l.once {
			break
		}
	}
	c.wall = time.Since(began)
	progress("%s: %s: %d requests, %.3f ms of CPU each, median %.2f ms", s.Name, l.name, len(c.took), c.each(), ms(side.Percentile(c.took, 50)))
	return c, nil
}

// first sends a load's first request and remembers what its answer tells.
func (b *bench) first(ctx context.Context, s *side.Side, send *sender) error {
	before, err := s.CPU()
	if err != nil {
		return err
	}
	body, took, err := send.first(ctx)
	if err != nil {
		return err
	}
	after, err := s.CPU()
	if err != nil || s.Name == side.Bare {
		return err
	}
	l := send.load
	b.results.size(l, s.Name, len(body))
	if l.clients == 1 { // a long answer, that may be held ready for the next time
		b.results.add(p50Section, l.title+", the first time", "ms", s.Name, ms(took))
		b.results.add(cpuSection, l.title+", the first time", "ms", s.Name, ms(after-before))
		progress("%s: %s, the first time: %.0f ms of CPU, %.1f ms", s.Name, l.name, ms(after-before), ms(took))
	}
	if l.bare == "" {
		return nil
	}
	file := filepath.Join(b.bodies, l.bare)
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	return os.WriteFile(file, body, 0o600)
}

// profile has the side profile itself while a load that was measured goes on.
func (b *bench) profile(ctx context.Context, s *side.Side, send *sender) error {
	if b.profiles == "" || s.Name == side.Bare {
		return nil
	}
	done := b.startProfile(ctx, s, send.load.name)
	for end := int(send.next.Load()); ; {
		select {
		case err := <-done:
			return err
		default:
		}
		end += min(send.load.round, 500)
		if _, err := send.send(ctx, end); err != nil {
			return err
		}
	}
}

// startProfile takes a CPU profile of five seconds; its end is told on the channel.
func (b *bench) startProfile(ctx context.Context, s *side.Side, name string) <-chan error {
	done := make(chan error, 1)
	go func() {
		c := s.Client()
		defer c.Close()
		var profile bytes.Buffer
		err := c.Do(ctx, side.Request{Method: http.MethodGet, Path: "/debug/pprof/profile?seconds=5", Accept: "*/*"}, &profile)
		if err == nil {
			err = os.WriteFile(filepath.Join(b.profiles, strings.ReplaceAll(s.Name, " ", "-")+"-"+name+".pprof"), profile.Bytes(), 0o644)
		}
		done <- err
	}()
	return done
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// progress tells whoever waits what is being done.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
