package recorder

import (
	"context"
	"strings"
	"time"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// This file moves what is kept into large pieces of memory. A record is made while its request allocates a hundred times as much, which is
// garbage soon. So the records of a busy minute lie on pages that hold nothing else, and that the runtime cannot give back: several
// times the bytes of the records themselves.

const (
	// packEvery is the time between two packings.
	packEvery = 30 * time.Second
	// pieceBytes is the size of a piece.
	pieceBytes = 8 << 10
	// packAtATime is how many records are copied while requests that end wait for the shard: a tenth of a millisecond (BenchmarkPack).
	packAtATime = 32
	// mostPacked is how large a shard of the history may be for packing, in bytes. Requests wait for all of it: 2 ms for half a megabyte.
	mostPacked = 1 << 20
)

// slab makes slices that lie side by side in pieces.
type slab[T any] struct{ piece []T }

// copy returns a copy of a slice; nil if it is empty.
func (s *slab[T]) copy(in []T) []T {
	if len(in) == 0 {
		return nil
	}
	if cap(s.piece)-len(s.piece) < len(in) {
		s.piece = make([]T, 0, max(len(in), pieceBytes/int(unsafe.Sizeof(in[0]))))
	}
	at := len(s.piece)
	s.piece = append(s.piece, in...)
	return s.piece[at:len(s.piece):len(s.piece)]
}

func (s *slab[T]) one(in T) *T { return &s.copy([]T{in})[0] }

// packer copies what is dropped in about the order in which it is copied: else little of a piece may hold on to all of it.
type packer struct {
	records   slab[v1alpha1.Record]
	layers    slab[v1alpha1.Layer]
	durations slab[metav1.Duration]
	steps     slab[v1alpha1.Step]
	changes   slab[v1alpha1.Change]
	fields    slab[v1alpha1.FieldChange]
	texts     slab[string]
	entries   slab[v1alpha1.HistoryEntry]
	pasts     slab[past]
	bytes     strings.Builder
	known     map[string]string
}

func (p *packer) text(s string) string {
	if s == "" {
		return ""
	}
	if p.bytes.Cap()-p.bytes.Len() < len(s) {
		p.bytes.Reset()
		p.bytes.Grow(max(len(s), pieceBytes))
	}
	at := p.bytes.Len()
	p.bytes.WriteString(s)
	return p.bytes.String()[at:]
}

// share is text for texts that many records have.
func (p *packer) share(texts ...*string) {
	for _, s := range texts {
		known, ok := p.known[*s]
		if !ok {
			known = p.text(*s)
			if p.known == nil {
				p.known = map[string]string{}
			}
			p.known[known] = known
		}
		*s = known
	}
}

func (p *packer) own(texts ...*string) {
	for _, s := range texts {
		*s = p.text(*s)
	}
}

func (p *packer) record(in *v1alpha1.Record) *v1alpha1.Record {
	r := p.records.one(*in)
	p.share(&r.Kept, &r.User, &r.Impersonated, &r.UserAgent, &r.SourceIP, &r.Verb, &r.Group, &r.Version, &r.Resource, &r.Subresource, &r.Namespace, &r.Reason)
	p.own(&r.AuditID, &r.Path, &r.Name, &r.Message)
	r.Fields = p.list(r.Fields)
	r.Layers = p.layers.copy(r.Layers)
	for i := range r.Layers {
		l := &r.Layers[i]
		p.share(&l.Name)
		if l.After != nil {
			l.After = p.durations.one(*l.After)
		}
	}
	r.Steps = p.stepsOf(r.Steps)
	r.Changes = p.changes.copy(r.Changes)
	for i := range r.Changes {
		c := &r.Changes[i]
		p.share(&c.Operation, &c.Group, &c.Resource, &c.Kind, &c.Namespace)
		p.own(&c.Name, &c.UID, &c.ResourceVersion)
		c.Fields = p.fieldsOf(c.Fields)
	}
	return r
}

func (p *packer) list(in []string) []string {
	out := p.texts.copy(in)
	for i := range out {
		p.own(&out[i])
	}
	return out
}

func (p *packer) stepsOf(in []v1alpha1.Step) []v1alpha1.Step {
	out := p.steps.copy(in)
	for i := range out {
		s := &out[i]
		p.share(&s.Kind, &s.Name, &s.Phase, &s.Result, &s.Reason)
	}
	return out
}

func (p *packer) fieldsOf(in []v1alpha1.FieldChange) []v1alpha1.FieldChange {
	out := p.fields.copy(in)
	for i := range out {
		f := &out[i]
		p.share(&f.Path)
		p.own(&f.Old, &f.New)
	}
	return out
}

// past copies the history of an object, which is in no list then.
func (p *packer) past(in *past) *past {
	out := p.pasts.one(*in)
	out.in, out.before, out.after = nil, nil, nil
	p.share(&out.object.Group, &out.object.Resource, &out.object.Namespace)
	p.own(&out.object.Name)
	out.entries = p.entries.copy(out.entries)
	for i := range out.entries {
		e := &out.entries[i]
		p.share(&e.Operation, &e.User, &e.Impersonated, &e.UserAgent, &e.SourceIP, &e.Verb, &e.Subresource, &e.Reason)
		p.own(&e.UID, &e.ResourceVersion, &e.Message)
		e.RefusedFields, e.Steps, e.Fields = p.list(e.RefusedFields), p.stepsOf(e.Steps), p.fieldsOf(e.Fields)
	}
	return out
}

// pack packs from time to time, until ctx ends.
func (r *Recorder) pack(ctx context.Context) {
	ticker := r.Clock.NewTicker(packEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			for n := range r.rings {
				r.rings[n].pack()
			}
			r.history.pack()
		}
	}
}

// pack packs the records that have come since it last did. Those of a ring are dropped in the order in which they have come.
func (r *ring) pack() {
	for n := range r.shards {
		for r.shards[n].pack(&r.packer) {
		}
	}
	clear(r.packer.known) // it would hold on to pieces
}

// pack packs some records, and says whether there are more.
func (s *shard) pack(p *packer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.packed = max(s.packed, s.pushed-int64(len(s.records)-s.first))
	some := s.records[len(s.records)-int(s.pushed-s.packed):]
	some = some[:min(len(some), packAtATime)]
	for i, rec := range some {
		s.bytes -= sizeOf(rec)
		some[i] = p.record(rec)
		s.bytes += sizeOf(some[i])
	}
	s.packed += int64(len(some))
	return s.packed < s.pushed
}

// pack packs all histories if many have changed since it last did. It always begins with new pieces: an object that is written anew leaves
// its old entries behind.
func (h *history) pack() {
	var p packer
	for n := range h.shards {
		h.shards[n].pack(&p)
	}
}

func (s *histories) pack(p *packer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == 0 || 8*s.changed < len(s.objects) || s.bytes > mostPacked {
		return
	}
	s.changed = 0
	old := [...]*pasts{&s.slim, &s.full}
	lists := [...]pasts{s.slim, s.full}
	clear(s.objects)
	s.bytes = 0
	for i := range old {
		*old[i] = pasts{}
		for at := lists[i].first; at != nil; at = at.after {
			was := entriesSize(at.entries)
			kept := p.past(at)
			kept.bytes += entriesSize(kept.entries) - was
			old[i].push(kept)
			s.objects[kept.object] = kept
			s.bytes += kept.bytes
		}
	}
}
