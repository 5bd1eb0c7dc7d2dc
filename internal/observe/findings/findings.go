// Package findings looks for what is wrong with a server now: webhooks that fail, objects that are stuck or that nothing works
// on, writers that fight, clients that cannot authenticate, disks that fill. 'kanzen diagnose', the console, the resource
// findings and the metric kanzen_findings all show what it finds.
//
// It measures nothing. It reads what the process has anyway: the requests that the flight recorder keeps, each of them once
// (tally.go), the state of parts, and objects in views that are loaded. So a look costs little, and nothing grows with time.
//
// Some of what it finds stands in objects. It is told only to readers who may get these objects (Findings).
package findings

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/base/space"
	"github.com/kanzen-io/kanzen/internal/chain/flowcontrol"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/observe/recorder"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

const (
	// every is how often the engine looks without being asked.
	every = 5 * time.Second
	// fresh is how long what was found is given to further readers.
	fresh = time.Second
	// forgetAfter is for how long a finding may be away and still be the same one when it is back.
	forgetAfter = 2 * time.Minute
	// mostOfCheck bounds the findings of one check: a hundred stuck namespaces have one cause.
	mostOfCheck = 20
	// mostObjects bounds the objects that a finding names for who asks about one of them.
	mostObjects = 50
	// patience is how long objects may wait for a program that does not seem to run.
	patience = 5 * time.Second
	// patienceWithLiving is how long they may wait for a program that runs: it may have much to do.
	patienceWithLiving = time.Minute
)

// Objects are the stored objects. catalog.Raw has them.
type Objects interface {
	Endpoint(gr schema.GroupResource) (*engine.Endpoint, error)
	Seen(ctx context.Context, gr schema.GroupResource, namespace, name string) (engine.Object, error)
	SeenList(ctx context.Context, gr schema.GroupResource, namespace string) ([]engine.Object, error)
}

// Certificate is a certificate of the server's settings with a fault.
type Certificate struct {
	Flag, Subject, Fault string
	Details              []string
	// Expiring says that it is still valid.
	Expiring bool
}

// Snapshots is how scheduled snapshots do.
type Snapshots struct {
	// Last is when one was made; zero: none is known. Failed and Error are of the newest failure, if that came later.
	Last, Failed time.Time
	Error        string
	// Keyless and KeysError say since when and why they come without the server's keys, although these were asked for.
	Keyless   time.Time
	KeysError string
	// Due is when the newest one should have been made.
	Due time.Time
}

// Server is an API server of the cluster.
type Server struct {
	Name, Host string
	// Settings are its version, and hashes of those flags that must be the same in all servers.
	Settings map[string]string
	// Seen is when it showed last that it is alive.
	Seen time.Time
}

// Config is what an Engine looks at. What is nil is not looked at, except for Recorder, Parts, Objects, Clock and Guard, which are
// required.
type Config struct {
	Recorder *recorder.Recorder
	Parts    recorder.Parts
	Objects  Objects
	Levels   func() []flowcontrol.LevelState
	NotReady func(ctx context.Context) error
	// Certificates returns those of the server's settings that have a fault.
	Certificates func() []Certificate
	Snapshots    func() Snapshots
	// Servers returns this server and the others of its cluster, as far as they tell of themselves.
	Servers func(ctx context.Context) (itself Server, others []Server)
	// Fleet returns what is known of the servers that share planes; nil: there is only one.
	Fleet func() *Fleet
	// Directories are those whose disk the server needs, by what is in them; Disk measures.
	Directories map[string]string
	Disk        func(dir string) (space.Disk, error)
	// Report is told of each new finding that is an error.
	Report func(ctx context.Context, f *v1alpha1.Finding)
	Clock  clock.WithTicker
	Guard  *guard.Guard
}

// Engine finds what is wrong. It is safe for concurrent use.
type Engine struct {
	Config

	// looking is held during a look, which may have to wait for etcd. It guards what one look leaves to the next.
	looking  sync.Mutex
	tally    tally
	scans    map[schema.GroupResource]*scanned
	refused  map[string]*refusals // by priority level
	sized    sizes
	faults   faults
	known    map[string]*known
	reported map[string]bool

	// mu is held for a moment only: no reader and no scrape of metrics waits for a look. It guards what the last look has found, and
	// when that was. It is locked after looking.
	mu  sync.Mutex
	now []*finding
	at  time.Time
}

// New makes an engine. Its metric is registered by the caller.
func New(c Config) *Engine {
	e := &Engine{Config: c, scans: map[schema.GroupResource]*scanned{}, refused: map[string]*refusals{},
		known: map[string]*known{}, reported: map[string]bool{}}
	e.tally.init()
	return e
}

// finding is a finding with what its reader must be able to get.
type finding struct {
	v1alpha1.Finding
	// reads are objects whose contents it tells: without all of them it is not told at all.
	reads []v1alpha1.ObjectReference
	// facts and advice become evidence and commands. Each is told only to who may get its object.
	facts, advice []told
	// touched are objects that it is about besides those of the facts.
	touched []v1alpha1.ObjectReference
}

type told struct {
	text string
	of   *v1alpha1.ObjectReference
}

func (f *finding) saw(format string, args ...any) {
	f.facts = append(f.facts, told{text: fmt.Sprintf(format, args...)})
}

// run adds a command to be pasted into a shell.
func (f *finding) run(format string, args ...any) {
	f.advice = append(f.advice, told{text: command(format, args...)})
}

// known is what is remembered of a finding between looks.
type known struct{ since, seen time.Time }

// look is one examination of the server.
type look struct {
	*Engine
	ctx   context.Context
	time  time.Time
	found []*finding
}

// find adds a finding of a check about a subject, which together name it, unless there are enough of that check.
func (l *look) find(check, severity, subject, format string, args ...any) *finding {
	f := &finding{}
	f.Check, f.Severity, f.Summary = check, severity, fmt.Sprintf(format, args...)
	f.ObjectMeta.Name = nameOf(check, subject)
	if !l.enough(check) && !slices.ContainsFunc(l.found, func(other *finding) bool { return other.ObjectMeta.Name == f.ObjectMeta.Name }) {
		l.found = append(l.found, f)
	}
	return f
}

// enough says that a check has found as much as is told. Checks look in an order that stays the same, so that findings do too.
func (l *look) enough(check string) bool {
	n := 0
	for _, f := range l.found {
		if f.Check == check {
			n++
		}
	}
	return n >= mostOfCheck
}

// about is find for an object whose contents the finding tells.
func (l *look) about(check, severity string, o v1alpha1.ObjectReference, format string, args ...any) *finding {
	f := l.find(check, severity, subjectOf(o), format, args...)
	f.Object, f.reads = &o, append(f.reads, o)
	return f
}

// maxFindingName bounds the name of a finding, in bytes.
const maxFindingName = 120

// nameOf makes the name of a finding. What users may call things by becomes characters of names; a hash keeps names apart.
func nameOf(check, subject string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(subject))
	clean := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '.', c == ':':
			return c
		case c == '/':
			return ':'
		case c >= 'A' && c <= 'Z':
			return c - 'A' + 'a'
		}
		return '-'
	}, subject)
	name := strings.ToLower(check)
	if clean != "" {
		name += "." + clean
	}
	if len(name) > maxFindingName || strings.ReplaceAll(clean, ":", "/") != subject {
		name = strings.TrimRight(name[:min(len(name), maxFindingName)], "-.") + fmt.Sprintf("-%08x", h.Sum32())
	}
	return name
}

// Run looks again and again until ctx ends, so that findings have a beginning, and are reported, though nobody asks.
func (e *Engine) Run(ctx context.Context) {
	ticker := e.Clock.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C():
			e.look(ctx)
			if ctx.Err() != nil {
				return // what the look was kept from seeing is not wrong
			}
			e.report(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// Findings returns what is wrong now, the worst first, as far as it may be told to a reader.
func (e *Engine) Findings(ctx context.Context, may func(v1alpha1.ObjectReference) bool) []*v1alpha1.Finding {
	e.look(context.WithoutCancel(ctx)) // what is found is for all readers, so it does not end with one of them
	all, _ := e.last()
	out := make([]*v1alpha1.Finding, 0, len(all))
	known := map[v1alpha1.ObjectReference]bool{} // findings have objects in common, and an authorizer may be a webhook
	once := func(o v1alpha1.ObjectReference) bool {
		allowed, ok := known[o]
		if !ok {
			allowed = may(o)
			known[o] = allowed
		}
		return allowed
	}
	for _, f := range all {
		if shown := f.shown(once); shown != nil {
			out = append(out, shown)
		}
	}
	return out
}

// shown returns a finding as a reader is told it; nil: not at all.
func (f *finding) shown(may func(v1alpha1.ObjectReference) bool) *v1alpha1.Finding {
	for _, o := range f.reads {
		if !may(o) {
			return nil
		}
	}
	out := f.Finding
	texts := func(all []told) (texts []string) {
		for _, t := range all {
			if t.of == nil || may(*t.of) {
				texts = append(texts, t.text)
			}
		}
		return texts
	}
	out.Evidence, out.Commands, out.Objects = texts(f.facts), texts(f.advice), f.objects(may)
	return &out
}

// objects returns what it is about besides its own object, as far as a reader may get it.
func (f *finding) objects(may func(v1alpha1.ObjectReference) bool) (out []v1alpha1.ObjectReference) {
	add := func(o v1alpha1.ObjectReference) {
		if (f.Object == nil || *f.Object != o) && len(out) < mostObjects && !slices.Contains(out, o) && may(o) {
			out = append(out, o)
		}
	}
	for _, t := range f.facts {
		if t.of != nil {
			add(*t.of)
		}
	}
	for _, o := range f.touched {
		add(o)
	}
	return out
}

// last returns what the last look has found, and when that was; zero: there was none.
func (e *Engine) last() ([]*finding, time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.now, e.at
}

// look examines the server, unless that was done just now, or somebody else is about it: that one may wait for a database that is
// away, and what was found before will do.
func (e *Engine) look(ctx context.Context) {
	if !e.looking.TryLock() {
		if _, at := e.last(); !at.IsZero() {
			return
		}
		e.looking.Lock()
	}
	defer e.looking.Unlock()
	now := e.Clock.Now()
	if _, at := e.last(); !at.IsZero() && now.Sub(at) < fresh {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, every)
	defer cancel()
	l := &look{Engine: e, ctx: ctx, time: now}
	e.tally.fold(e.Recorder, now)
	for _, check := range []func(){l.health, l.storage, l.certificates, l.admission, l.conversions, l.definitions, l.costly, l.apiServices, l.servers, l.fleet, l.seats, l.clients, l.writers,
		l.deletions, l.workloads, l.quotas} {
		// A check that panics takes nothing from the others.
		_ = e.Guard.Call("look for findings", func() error { check(); return nil })
	}
	e.settle(l)
}

// settle remembers what a look has found, and since when it is so.
func (e *Engine) settle(l *look) {
	for _, f := range l.found {
		k := e.known[f.ObjectMeta.Name]
		if k == nil {
			k = &known{since: l.time}
			e.known[f.ObjectMeta.Name] = k
		}
		if !f.Since.IsZero() && f.Since.Time.Before(k.since) {
			k.since = f.Since.Time
		}
		k.seen = l.time
		f.Since = metav1.NewTime(k.since)
		f.CreationTimestamp = f.Since
	}
	for name, k := range e.known {
		if l.time.Sub(k.seen) > forgetAfter {
			delete(e.known, name)
			delete(e.reported, name)
		}
	}
	slices.SortFunc(l.found, func(a, b *finding) int {
		return cmp.Or(cmp.Compare(rank(a.Severity), rank(b.Severity)), cmp.Compare(a.Check, b.Check), a.Since.Compare(b.Since.Time), cmp.Compare(a.ObjectMeta.Name, b.ObjectMeta.Name))
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	e.now, e.at = l.found, l.time
}

func rank(severity string) int {
	return slices.Index([]string{v1alpha1.SeverityError, v1alpha1.SeverityWarning, v1alpha1.SeverityInfo}, severity)
}

// report reports the errors that were not reported yet. A report that finds no storage must not keep the next look waiting.
func (e *Engine) report(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, every)
	defer cancel()
	for _, f := range e.reports() {
		e.Report(ctx, f)
	}
}

// reports returns the errors that were not reported yet, without evidence and commands, which not everybody may be told.
func (e *Engine) reports() (out []*v1alpha1.Finding) {
	if e.Report == nil {
		return nil
	}
	e.looking.Lock()
	defer e.looking.Unlock()
	found, _ := e.last()
	for _, f := range found {
		if f.Severity == v1alpha1.SeverityError && !e.reported[f.ObjectMeta.Name] {
			e.reported[f.ObjectMeta.Name] = true
			public := f.Finding
			out = append(out, &public)
		}
	}
	return out
}

func (l *look) health() {
	if l.NotReady == nil {
		return
	}
	if err := l.NotReady(l.ctx); err != nil {
		f := l.find("NotReady", v1alpha1.SeverityError, "", "the server is not ready")
		f.Cause = oneLine(err.Error())
		f.Impact = "load balancers send it no requests"
		f.run("kubectl get --raw '/readyz?verbose'")
	}
}

func oneLine(s string) string { return strings.ReplaceAll(s, "\n", "; ") }

// plural writes a number of things.
func plural[N int | int64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// short rounds a time for people.
func short(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Microsecond).String()
}
