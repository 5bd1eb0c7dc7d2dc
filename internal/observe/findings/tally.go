package findings

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	authuser "k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/observe/recorder"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/wire/remote"
)

// Bounds of what a tally keeps apart. What comes later is not counted until something else is forgotten.
const (
	maxCounted  = 2000
	maxAwaited  = 500
	maxRequests = 3
	maxFields   = 16
)

// slowStep is how long a webhook or conversion may take.
const slowStep = time.Second

// slowStorage is how long the storage of a write may take.
const slowStorage = 250 * time.Millisecond

// tally counts the requests of the last minute by what can be wrong with them. Each kept request is counted once.
type tally struct {
	cursor recorder.Cursor
	steps  map[stepKey]*stepTally
	// strangers are clients that could not authenticate.
	strangers map[strangerKey]*strangerTally
	written   map[v1alpha1.ObjectReference]*objectTally
	idle      map[idleKey]*idleTally
	lists     map[listKey]*listTally
	users     map[string]*window // seconds of requests by user
	storage   struct{ writes, slow, seconds window }
	// seen is how programs send requests, by their names.
	seen map[string]*presence
	// deleting are objects whose deletion has begun, and made workloads that were created: both wait for somebody.
	deleting, made map[v1alpha1.ObjectReference]time.Time
}

type stepKey struct{ kind, name string }

type stepTally struct {
	calls, slow, seconds, failed, ignored, refused window
	longest                                        time.Duration
	reason                                         string
	users, resources, refusedUsers                 names
	requests, refusals                             []string
	failing                                        time.Time // since when it has failed without an answer
	last                                           time.Time
}

type strangerKey struct{ program, address, name, reason string }

type strangerTally struct {
	count    window
	requests []string
	last     time.Time
}

type objectTally struct {
	writes window
	fields map[string]*fieldTally
	last   time.Time
}

type fieldTally struct {
	written int64 // slot
	writer  string
	turns   window
	writers names
}

// presence is when a program sent its last kept request, and the longest time between two of them: a program that polls is away in
// between, and so is one whose reads are kept only now and then.
type presence struct {
	last time.Time
	gap  time.Duration
}

type idleKey struct {
	writer string
	object v1alpha1.ObjectReference
}

type idleTally struct {
	count    window
	requests []string
	last     time.Time
}

type listKey struct{ program, user, group, resource string }

type listTally struct {
	count, bytes window
	requests     []string
	last         time.Time
}

func (t *tally) init() {
	t.steps, t.strangers, t.written, t.idle = map[stepKey]*stepTally{}, map[strangerKey]*strangerTally{}, map[v1alpha1.ObjectReference]*objectTally{}, map[idleKey]*idleTally{}
	t.lists, t.users, t.seen = map[listKey]*listTally{}, map[string]*window{}, map[string]*presence{}
	t.deleting, t.made = map[v1alpha1.ObjectReference]time.Time{}, map[v1alpha1.ObjectReference]time.Time{}
}

// of returns the value at a key, made if there is room.
func of[K comparable, V any](m map[K]*V, k K) *V {
	v := m[k]
	if v == nil && len(m) < maxCounted {
		v = new(V)
		m[k] = v
	}
	return v
}

// fold counts the requests that were kept since the last time, and forgets old ones.
func (t *tally) fold(r *recorder.Recorder, now time.Time) {
	for _, rec := range r.Since(&t.cursor) {
		ended := rec.Time.Add(rec.Duration.Duration)
		t.awaited(rec, ended)
		if now.Sub(ended) < span {
			t.request(rec, ended)
		}
	}
	t.forget(now)
}

func (t *tally) request(rec *v1alpha1.Record, ended time.Time) {
	slot, number := slotOf(ended), "r"+strconv.FormatInt(rec.Number, 10)
	user, program := cmp.Or(rec.Impersonated, rec.User), recorder.Program(rec.UserAgent)
	if rec.User != "" && rec.User != authuser.Anonymous { // anybody can take a name
		t.saw(program, ended)
	}
	if w := of(t.users, user); w != nil {
		w.add(slot, rec.Duration.Seconds()*float64(rec.Weight))
	}
	for n := range rec.Steps {
		if s := &rec.Steps[n]; s.Kind != request.StepPlugin && s.Reason != remote.Canceled {
			t.step(rec, s, slot, ended, user, number)
		}
	}
	switch {
	case rec.Verb == "list" && rec.Code < 400:
		if l := of(t.lists, listKey{program, user, rec.Group, rec.Resource}); l != nil {
			l.count.add(slot, float64(rec.Weight))
			l.bytes.add(slot, float64(rec.Weight)*float64(rec.ResponseBytes))
			l.requests, l.last = append1(l.requests, number), ended
		}
	case rec.Kept == v1alpha1.KeptWrite && rec.Code < 400 && !rec.DryRun:
		t.write(rec, slot, ended, number)
	}
}

// saw notes that a program has sent a request. If there are too many programs, it takes the place of another one: who runs is seen
// again.
func (t *tally) saw(program string, at time.Time) {
	name, _, _ := strings.Cut(program, "/")
	p := t.seen[name]
	if p == nil {
		if len(t.seen) >= maxCounted {
			for other := range t.seen {
				delete(t.seen, other)
				break
			}
		}
		t.seen[name] = &presence{last: at}
		return
	}
	p.gap = max(p.gap, at.Sub(p.last))
	p.last = latest(p.last, at)
}

// append1 keeps the newest few.
func append1(all []string, one string) []string {
	if len(all) == maxRequests {
		all = append(all[:0], all[1:]...)
	}
	return append(all, one)
}

func (t *tally) step(rec *v1alpha1.Record, s *v1alpha1.Step, slot int64, ended time.Time, user, number string) {
	if s.Kind == request.StepAuthentication {
		if w := of(t.strangers, strangerKey{recorder.Program(rec.UserAgent), rec.SourceIP, s.Name, s.Reason}); w != nil {
			w.count.add(slot, float64(rec.Weight))
			w.requests, w.last = append1(w.requests, number), ended
		}
		return
	}
	c := of(t.steps, stepKey{s.Kind, s.Name})
	if c == nil {
		return
	}
	c.last = ended
	n := float64(rec.Weight) // conversions are on the way of reads too, of which only some are kept
	c.calls.add(slot, n)
	c.seconds.add(slot, n*s.Duration.Seconds())
	bad := false
	if s.Duration.Duration >= slowStep {
		c.slow.add(slot, n)
		c.longest, bad = max(c.longest, s.Duration.Duration), true
	}
	switch s.Result {
	case request.StepFailed, request.StepTimedOut:
		if s.Ignored {
			c.ignored.add(slot, n)
		} else {
			c.failed.add(slot, n)
		}
		if c.failing.IsZero() {
			c.failing = ended
		}
		c.reason, bad = s.Reason, true
	case request.StepRefused:
		c.failing = time.Time{}
		if !s.Ignored {
			c.refused.add(slot, n)
			c.refusedUsers.add(user)
			c.refusals = append1(c.refusals, number)
		}
	default:
		c.failing = time.Time{}
	}
	if bad {
		c.users.add(user)
		c.resources.add(resource(rec.Group, rec.Resource))
		c.requests = append1(c.requests, number)
	}
}

// resource writes a resource with its group.
func resource(group, resource string) string {
	if group == "" {
		return resource
	}
	return resource + "." + group
}

// write counts a successful write: whether it changed anything, who wrote the same before, how long its storage took.
func (t *tally) write(rec *v1alpha1.Record, slot int64, ended time.Time, number string) {
	t.storage.writes.add(slot, 1)
	for _, l := range rec.Layers {
		if l.Name == request.LayerStorage.String() {
			t.storage.seconds.add(slot, l.Duration.Seconds())
			if l.Duration.Duration >= slowStorage {
				t.storage.slow.add(slot, 1)
			}
		}
	}
	if !recorder.Updates(rec) {
		return
	}
	object := v1alpha1.ObjectReference{Group: rec.Group, Resource: rec.Resource, Namespace: rec.Namespace, Name: rec.Name}
	writer := recorder.Writer(&v1alpha1.HistoryEntry{User: rec.User, Impersonated: rec.Impersonated, UserAgent: rec.UserAgent})
	if len(rec.Changes)+rec.MoreChanges == 0 {
		if i := of(t.idle, idleKey{writer, object}); i != nil {
			i.count.add(slot, 1)
			i.requests, i.last = append1(i.requests, number), ended
		}
		return
	}
	// A request changes other objects as well, as the usage of quotas: that is the server's work and no fight.
	for n := range rec.Changes {
		c := &rec.Changes[n]
		if c.Operation != request.ChangeUpdated || c.Resource != rec.Resource || c.Name != rec.Name || c.Group != rec.Group {
			continue
		}
		if o := of(t.written, object); o != nil {
			o.writes.add(slot, 1)
			o.last = ended
			o.turn(c.Fields, writer, slot)
		}
	}
}

// turn counts for each field of an object whether it goes to another writer.
func (o *objectTally) turn(fields []v1alpha1.FieldChange, writer string, slot int64) {
	if o.fields == nil {
		o.fields = map[string]*fieldTally{}
	}
	for n := range fields {
		f := o.fields[fields[n].Path]
		if f == nil {
			if len(o.fields) == maxFields {
				forget(o.fields, func(f *fieldTally) bool { return f.written <= slot-slots })
			}
			if len(o.fields) < maxFields {
				o.fields[fields[n].Path] = &fieldTally{written: slot, writer: writer, writers: names{writer: 1}}
			}
			continue
		}
		f.written = slot
		f.writers.add(writer)
		if f.writer != writer {
			f.turns.add(slot, 1)
			f.writer = writer
		}
	}
}

// awaited remembers objects that wait for somebody: to be deleted, or to be worked on.
func (t *tally) awaited(rec *v1alpha1.Record, ended time.Time) {
	for n := range rec.Changes {
		c := &rec.Changes[n]
		object := v1alpha1.ObjectReference{Group: c.Group, Resource: c.Resource, Namespace: c.Namespace, Name: c.Name}
		switch c.Operation {
		case request.ChangeDeleting:
			if len(t.deleting) < maxAwaited {
				t.deleting[object] = ended
			}
		case request.ChangeDeleted:
			delete(t.deleting, object)
			delete(t.made, object)
		case request.ChangeCreated:
			if workerOf(schema.GroupResource{Group: c.Group, Resource: c.Resource}) != "" && len(t.made) < maxAwaited {
				t.made[object] = ended
			}
		}
	}
}

// forget drops what did not happen in the last minute.
func (t *tally) forget(now time.Time) {
	old := func(last time.Time) bool { return now.Sub(last) >= span }
	forget(t.steps, func(v *stepTally) bool { return old(v.last) })
	forget(t.strangers, func(v *strangerTally) bool { return old(v.last) })
	forget(t.written, func(v *objectTally) bool { return old(v.last) })
	forget(t.idle, func(v *idleTally) bool { return old(v.last) })
	forget(t.lists, func(v *listTally) bool { return old(v.last) })
	slot := slotOf(now)
	forget(t.users, func(w *window) bool { return w.sum(slot) == 0 })
	forget(t.seen, func(p *presence) bool { return now.Sub(p.last) >= 10*span })
}

// ranked returns the keys of what counts at least least, the largest first. Of many, those that are told of are the same at each look.
func ranked[K comparable, V any](m map[K]V, least float64, count func(V) float64) []K {
	counts := map[K]float64{}
	for k, v := range m {
		if n := count(v); n >= least {
			counts[k] = n
		}
	}
	return slices.SortedFunc(maps.Keys(counts), func(a, b K) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
}

func forget[K comparable, V any](m map[K]*V, gone func(*V) bool) {
	for k, v := range m {
		if gone(v) {
			delete(m, k)
		}
	}
}
