package recorder

import (
	"hash/maphash"
	"slices"
	"sync"
	"unsafe"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/request"
)

// maxEntries bounds the history of an object, so that one which is written every second leaves room for others.
const maxEntries = 32

// keptEntries is how many entries an object keeps when room is needed, until there is no other way.
const keptEntries = 2

// maxRefused bounds the refusals in the history of an object: who may do nothing must not be able to push out what others did.
const maxRefused = 8

// history has the newest entries of objects, within a bound of bytes. When it is full, the objects that were not written
// for longest lose all but their newest entries, and only if that is not enough they are forgotten.
type history struct {
	seed   maphash.Seed
	shards [shards]histories
}

type histories struct {
	mu      sync.Mutex
	limit   int64
	bytes   int64
	objects map[v1alpha1.ObjectReference]*past // guarded by mu, as all below
	// full are objects with more than keptEntries, slim the others; the least recently written first.
	full, slim pasts
	changed    int // entries since the last packing
}

// past is the history of an object.
type past struct {
	object    v1alpha1.ObjectReference
	entries   []v1alpha1.HistoryEntry // oldest first
	bytes     int64
	forgotten int64
	in        *pasts // where it is between before and after
	before    *past
	after     *past
}

// pasts is a list.
type pasts struct{ first, last *past }

func (l *pasts) push(p *past) {
	p.in, p.before, p.after = l, l.last, nil
	if l.last != nil {
		l.last.after = p
	} else {
		l.first = p
	}
	l.last = p
}

// take takes over what is in another list.
func (l *pasts) take(from *pasts) {
	*l = pasts{}
	for p := from.first; p != nil; {
		next := p.after
		l.push(p)
		p = next
	}
	*from = pasts{}
}

func (p *past) leave() {
	if p.before != nil {
		p.before.after = p.after
	} else {
		p.in.first = p.after
	}
	if p.after != nil {
		p.after.before = p.before
	} else {
		p.in.last = p.before
	}
	p.in, p.before, p.after = nil, nil, nil
}

func newHistory(limit int64) *history {
	h := &history{seed: maphash.MakeSeed()}
	for n := range h.shards {
		h.shards[n] = histories{limit: limit / shards, objects: map[v1alpha1.ObjectReference]*past{}}
	}
	return h
}

func (h *history) shard(o v1alpha1.ObjectReference) *histories {
	return &h.shards[maphash.Comparable(h.seed, o)%shards]
}

// remember adds a request to the history of the objects that it is about: those it has changed, and the one that it was
// refused.
func (r *Recorder) remember(rec *v1alpha1.Record, changes []v1alpha1.Change) {
	if rec.Kept != v1alpha1.KeptWrite && rec.Code < 400 || rec.DryRun {
		return
	}
	entry := r.entryOf(rec)
	itself := false // the object that the request names is among those that it changed
	for n := range changes {
		c := &changes[n]
		named := c.Group == rec.Group && c.Resource == rec.Resource && c.Name == rec.Name && c.Namespace == rec.Namespace
		itself = itself || named
		e := entry
		if !named { // who may get this object may not therefore get the one that the refusal speaks of
			e.Message, e.RefusedFields = "", nil
		}
		e.Operation, e.UID, e.ResourceVersion, e.Fields, e.MoreFields = c.Operation, c.UID, c.ResourceVersion, c.Fields, c.MoreFields
		r.history.add(v1alpha1.ObjectReference{Group: c.Group, Resource: c.Resource, Namespace: c.Namespace, Name: c.Name}, e)
	}
	known := rec.Resource != "" && rec.Name != "" && rec.Code != 404 && rec.Code != 401
	refused := rec.Code >= 400 && (writing(rec.Verb) || rec.Code != 403) // reads that are forbidden say nothing of the object
	called := rec.Code < 400 && rec.Subresource != "" && rec.Verb == "create"
	if known && !itself && (refused || called && len(changes) == 0) { // a refused Service gives its address back, which is a change
		r.history.add(v1alpha1.ObjectReference{Group: rec.Group, Resource: rec.Resource, Namespace: rec.Namespace, Name: rec.Name}, entry)
	}
}

// entryOf makes the entry of a request.
func (r *Recorder) entryOf(rec *v1alpha1.Record) v1alpha1.HistoryEntry {
	entry := v1alpha1.HistoryEntry{First: rec.Time, Last: rec.Time, Count: 1, User: rec.User, Impersonated: rec.Impersonated, UserAgent: rec.UserAgent,
		SourceIP: rec.SourceIP, Verb: rec.Verb, Subresource: rec.Subresource, Code: rec.Code, Reason: rec.Reason, Message: rec.Message, RefusedFields: rec.Fields, Request: rec.Number}
	for _, s := range rec.Steps {
		if s.Kind != "plugin" && (s.Changed || s.Result != "Allowed" || s.Duration.Duration >= r.Slow) || s.Kind == "plugin" && s.Result == "Refused" {
			entry.Steps = append(entry.Steps, s)
		}
	}
	return entry
}

func (h *history) add(o v1alpha1.ObjectReference, e v1alpha1.HistoryEntry) {
	s := h.shard(o)
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.objects[o]
	if p == nil {
		if mayNothing(&e) {
			return // the request itself is kept, in the part of refusals
		}
		p = &past{object: o}
		p.bytes = int64(unsafe.Sizeof(*p)) + 64 + int64(len(o.Group)+len(o.Resource)+len(o.Namespace)+len(o.Name))
		s.slim.push(p)
		s.objects[o] = p
		s.bytes += p.bytes
	}
	s.changed++
	s.resize(p, func() {
		if n := len(p.entries); n > 0 && same(&p.entries[n-1], &e) {
			last := p.entries[n-1]
			e.First, e.Count = last.First, last.Count+e.Count
			p.entries[n-1] = e
			return
		}
		p.makeRoom(isRefusal(&e))
		p.entries = append(p.entries, e)
	})
	s.place(p)
	s.shrink()
}

// precede puts the entries of another history, which is not used any more, before those of this one.
func (h *history) precede(before *history) {
	for n := range h.shards {
		s, old := &h.shards[n], &before.shards[n]
		s.mu.Lock()
		for _, l := range []*pasts{&s.slim, &s.full} {
			for p := l.first; p != nil; p = p.after {
				before.append(p)
			}
		}
		s.bytes, s.objects, s.changed = old.bytes, old.objects, old.changed
		s.slim.take(&old.slim)
		s.full.take(&old.full)
		s.mu.Unlock()
	}
}

// append adds what another history has of an object.
func (h *history) append(p *past) {
	for _, e := range p.entries {
		h.add(p.object, e)
	}
	s := h.shard(p.object)
	s.mu.Lock()
	defer s.mu.Unlock()
	if kept := s.objects[p.object]; kept != nil {
		kept.forgotten += p.forgotten
	}
}

func isRefusal(e *v1alpha1.HistoryEntry) bool { return e.Code >= 400 }

// mayNothing says that a request was refused before it was looked at: by authorization, or by flow control.
func mayNothing(e *v1alpha1.HistoryEntry) bool {
	return e.Code == 429 || e.Code == 403 && !slices.ContainsFunc(e.Steps, func(s v1alpha1.Step) bool { return s.Result == request.StepRefused })
}

// makeRoom drops an entry if there is no room for another, a refusal or not. A refusal takes the place of another one.
func (p *past) makeRoom(refusal bool) {
	refused, oldest := 0, 0
	for n := range p.entries {
		if isRefusal(&p.entries[n]) {
			if refused++; refused == 1 {
				oldest = n
			}
		}
	}
	switch {
	case refusal && refused >= maxRefused:
	case len(p.entries) < maxEntries:
		return
	default:
		oldest = 1 // the first entry stays: it tells who made the object
	}
	p.entries = slices.Delete(p.entries, oldest, oldest+1)
	p.forgotten++
}

// slimmed returns the newest entries, those of changes before those of refusals.
func slimmed(entries []v1alpha1.HistoryEntry) []v1alpha1.HistoryEntry {
	changes := slices.DeleteFunc(slices.Clone(entries), func(e v1alpha1.HistoryEntry) bool { return isRefusal(&e) })
	if len(changes) == 0 {
		changes = entries
	}
	return slices.Clone(changes[max(0, len(changes)-keptEntries):])
}

// same says that two entries differ in nothing but time and values.
func same(a, b *v1alpha1.HistoryEntry) bool {
	if a.User != b.User || a.Impersonated != b.Impersonated || a.UserAgent != b.UserAgent || a.SourceIP != b.SourceIP || a.Verb != b.Verb || a.Subresource != b.Subresource ||
		a.Code != b.Code || a.Reason != b.Reason || a.Operation != b.Operation || a.UID != b.UID || a.MoreFields != b.MoreFields || len(a.Steps) != len(b.Steps) {
		return false
	}
	return a.Operation != "Created" && slices.EqualFunc(a.Fields, b.Fields, func(x, y v1alpha1.FieldChange) bool { return x.Path == y.Path }) &&
		slices.Equal(a.RefusedFields, b.RefusedFields)
}

// resize changes the entries of an object and counts their bytes.
func (s *histories) resize(p *past, change func()) {
	before := p.bytes
	p.bytes -= entriesSize(p.entries)
	change()
	p.bytes += entriesSize(p.entries)
	s.bytes += p.bytes - before
}

func entriesSize(entries []v1alpha1.HistoryEntry) int64 {
	n := cap(entries) * int(unsafe.Sizeof(v1alpha1.HistoryEntry{}))
	for i := range entries {
		e := &entries[i]
		n += len(e.User) + len(e.Impersonated) + len(e.UserAgent) + len(e.SourceIP) + len(e.UID) + len(e.ResourceVersion) + len(e.Reason) + len(e.Message) + sizeOfFields(e.Fields)
		for _, f := range e.RefusedFields {
			n += len(f) + 16
		}
		for _, s := range e.Steps {
			n += int(unsafe.Sizeof(s)) + len(s.Name)
		}
	}
	return int64(n)
}

// place puts an object at the end of the list where it belongs.
func (s *histories) place(p *past) {
	to := &s.slim
	if len(p.entries) > keptEntries {
		to = &s.full
	}
	p.leave()
	to.push(p)
}

// shrink brings the histories within their bound.
func (s *histories) shrink() {
	for s.bytes > s.limit {
		if p := s.full.first; p != nil {
			s.resize(p, func() {
				kept := slimmed(p.entries)
				p.forgotten += int64(len(p.entries) - len(kept))
				p.entries = kept
			})
			s.place(p)
			continue
		}
		p := s.slim.first
		if p == nil {
			return
		}
		p.leave()
		delete(s.objects, p.object)
		s.bytes -= p.bytes
	}
}

// History returns what is known of an object, oldest first, and how many entries were forgotten. An object without a history may have
// been refused to somebody who may do nothing: that is in the records alone.
func (r *Recorder) History(o v1alpha1.ObjectReference) (entries []v1alpha1.HistoryEntry, forgotten int64) {
	if p := r.history.past(o); p != nil {
		return slices.Clone(p.entries), p.forgotten
	}
	return r.refusalsOf(o), 0
}

// past returns a copy of what is known of an object; nil: nothing is.
func (h *history) past(o v1alpha1.ObjectReference) *past {
	s := h.shard(o)
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.objects[o]
	if kept == nil {
		return nil
	}
	p := *kept
	p.in, p.before, p.after = nil, nil, nil
	p.entries = slices.Clone(p.entries)
	return &p
}

// refusalsOf returns the newest refusals of writes to an object, or, of creations that were refused before their object was read, of
// those that may have been for it.
func (r *Recorder) refusalsOf(o v1alpha1.ObjectReference) []v1alpha1.HistoryEntry {
	out := []v1alpha1.HistoryEntry{}
	var c Cursor
	for _, rec := range r.since(&c, refusals) {
		if !writing(rec.Verb) || rec.DryRun || rec.Group != o.Group || rec.Resource != o.Resource || rec.Namespace != o.Namespace || rec.Name != o.Name && rec.Name != "" {
			continue
		}
		e := r.entryOf(rec)
		e.Unnamed = rec.Name == ""
		if n := len(out); n > 0 && out[n-1].Unnamed == e.Unnamed && same(&out[n-1], &e) {
			e.First, e.Count = out[n-1].First, out[n-1].Count+1
			out = out[:n-1]
		}
		out = append(out, e)
	}
	return out[max(0, len(out)-maxRefused):]
}

func (h *history) size() (n int64) {
	for i := range h.shards {
		h.shards[i].mu.Lock()
		n += h.shards[i].bytes
		h.shards[i].mu.Unlock()
	}
	return n
}

func (h *history) count() (n int64) {
	for i := range h.shards {
		h.shards[i].mu.Lock()
		n += int64(len(h.shards[i].objects))
		h.shards[i].mu.Unlock()
	}
	return n
}
