package recorder

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// shards is the number of parts of a ring, each with a lock of its own.
const shards = 8

// ring keeps the newest records within a bound of bytes.
type ring struct {
	shards [shards]shard
	packer packer // used by one goroutine
}

type shard struct {
	mu      sync.Mutex
	limit   int64
	bytes   int64
	records []*v1alpha1.Record // oldest first, from first on; guarded by mu
	first   int
	pushed  int64 // how many records were ever pushed, from manyBefore on
	packed  int64 // of those, how many were packed
	// gone is when the newest request that was dropped had ended.
	gone time.Time
}

// manyBefore is more than there can be of records that are put before others: readers have as many less behind them.
const manyBefore = 1 << 40

func (r *ring) init(limit int64) {
	for n := range r.shards {
		r.shards[n].limit, r.shards[n].pushed = limit/shards, manyBefore
	}
}

// precede puts the records of another ring, which is not used any more, before those of this one, as far as there is room.
func (r *ring) precede(before *ring) {
	for n := range r.shards {
		s, old := &r.shards[n], before.shards[n].records[before.shards[n].first:]
		s.mu.Lock()
		room, from := s.limit-s.bytes, len(old)
		for from > 0 && room >= sizeOf(old[from-1]) {
			from--
			room -= sizeOf(old[from])
		}
		gone := before.shards[n].gone
		if from > 0 {
			gone = endOf(old[from-1])
		}
		if gone.After(s.gone) { // this ring may have dropped newer ones meanwhile
			s.gone = gone
		}
		s.bytes = s.limit - room
		s.records = slices.Concat(old[from:], s.records[s.first:])
		s.first = 0
		s.mu.Unlock()
	}
}

// push adds a record, and drops the oldest ones beyond the bound.
func (r *ring) push(rec *v1alpha1.Record) {
	r.shards[rand.Uint32N(shards)].push(rec)
}

func (s *shard) push(rec *v1alpha1.Record) {
	size := sizeOf(rec)
	if size > s.limit {
		return // a bound of very few bytes
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.bytes+size > s.limit {
		old := s.records[s.first]
		s.bytes -= sizeOf(old)
		if at := endOf(old); at.After(s.gone) {
			s.gone = at
		}
		s.records[s.first] = nil
		s.first++
	}
	if s.first > 64 && s.first > len(s.records)/2 {
		s.records = append(s.records[:0], s.records[s.first:]...)
		clear(s.records[len(s.records):cap(s.records)])
		s.first = 0
	}
	s.records = append(s.records, rec)
	s.bytes += size
	s.pushed++
}

func (r *ring) size() (bytes int64) {
	for n := range r.shards {
		s := &r.shards[n]
		s.mu.Lock()
		bytes += s.bytes
		s.mu.Unlock()
	}
	return bytes
}

func endOf(rec *v1alpha1.Record) time.Time { return rec.Time.Add(rec.Duration.Duration) }

// recent returns the requests that ended after a time, at most so many of each shard, and since when there are all of them.
func (r *ring) recent(after time.Time, most int) (records []*v1alpha1.Record, since time.Time) {
	since = after
	for n := range r.shards {
		s := &r.shards[n]
		s.mu.Lock()
		held := s.records[s.first:]
		if s.gone.After(since) {
			since = s.gone
		}
		if len(held) > most {
			held = held[len(held)-most:]
			if at := endOf(held[0]); at.After(since) {
				since = at
			}
		}
		records = append(records, held...)
		s.mu.Unlock()
	}
	return slices.DeleteFunc(records, func(rec *v1alpha1.Record) bool { return !endOf(rec).After(since) }), since
}

// Cursor is a reader's place in what is kept.
type Cursor [classes][shards]int64

// Since returns the records kept after the cursor, in the order in which the requests began, and moves it. The records must not
// be changed.
func (r *Recorder) Since(c *Cursor) []*v1alpha1.Record { return r.since(c, writes, refusals, reads) }

// since is Since for records of some classes.
func (r *Recorder) since(c *Cursor, of ...class) []*v1alpha1.Record {
	out := r.fresh(c, of...)
	slices.SortFunc(out, func(a, b *v1alpha1.Record) int { return cmp.Compare(a.Number, b.Number) })
	return out
}

// fresh is since in any order, which costs a quarter.
func (r *Recorder) fresh(c *Cursor, of ...class) (out []*v1alpha1.Record) {
	for _, class := range of {
		for n := range r.rings[class].shards {
			s := &r.rings[class].shards[n]
			s.mu.Lock()
			held := s.records[s.first:]
			fresh := min(s.pushed-c[class][n], int64(len(held)))
			out = append(out, held[int64(len(held))-fresh:]...)
			c[class][n] = s.pushed
			s.mu.Unlock()
		}
	}
	return out
}

// Records returns what is kept, in the order in which the requests ended. The records must not be changed.
func (r *Recorder) Records() []*v1alpha1.Record {
	var c Cursor
	return r.Since(&c)
}

// sizeOf is the memory of a record. Texts that records share are counted in each of them.
func sizeOf(r *v1alpha1.Record) int64 {
	n := int(unsafe.Sizeof(*r)) + 8
	for _, s := range []string{r.AuditID, r.User, r.Impersonated, r.UserAgent, r.SourceIP, r.Path, r.Group, r.Version, r.Resource,
		r.Subresource, r.Namespace, r.Name, r.Reason, r.Message} {
		n += len(s)
	}
	for _, f := range r.Fields {
		n += len(f) + 16
	}
	n += cap(r.Layers) * int(unsafe.Sizeof(v1alpha1.Layer{})+unsafe.Sizeof(time.Duration(0)))
	for i := range r.Steps {
		n += int(unsafe.Sizeof(r.Steps[i])) + len(r.Steps[i].Name)
	}
	for i := range r.Changes {
		n += sizeOfChange(&r.Changes[i])
	}
	return int64(n)
}

func sizeOfChange(c *v1alpha1.Change) int {
	n := int(unsafe.Sizeof(*c)) + len(c.Group) + len(c.Resource) + len(c.Kind) + len(c.Namespace) + len(c.Name) + len(c.UID) + len(c.ResourceVersion)
	return n + sizeOfFields(c.Fields)
}

func sizeOfFields(fields []v1alpha1.FieldChange) (n int) {
	for i := range fields {
		f := &fields[i]
		n += int(unsafe.Sizeof(*f)) + len(f.Path) + len(f.Old) + len(f.New)
	}
	return n
}
