package kine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/kanzen-io/kanzen/internal/store/etcdfile"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

const (
	compactKey    = "compact_rev_key"           // kine's own
	apiCompactKey = "compact_rev_key_apiserver" // of API servers, which call it compactKey
	gapPrefix     = "gap-"

	// maxLease bounds the seconds of a lease, so that its end can be told in nanoseconds.
	maxLease = 3_000_000_000
)

// Save writes a file of etcd's database with the history that a source has. progress is called with the number of bytes of values so far;
// nil: it is not.
func Save(ctx context.Context, from Source, path string, progress func(bytes int64)) error {
	compacted, err := from.Compacted(ctx)
	if err != nil {
		return err
	}
	w, err := etcdfile.Create(path)
	if err != nil {
		return err
	}
	h := history{w: w, now: time.Now(), compacted: compacted, keys: map[string]state{}, progress: progress}
	if err = from.Rows(ctx, h.add); err == nil {
		err = h.end()
	}
	if err = errors.Join(err, w.Close()); err != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// history turns rows into changes.
type history struct {
	w         *etcdfile.Writer
	now       time.Time // leases begin
	compacted int64
	head      int64            // the newest revision so far
	atCompact bool             // there is a row of revision compacted
	keys      map[string]state // that exist at head
	bytes     int64
	progress  func(int64)
}

// state is what the next change of a key needs to know.
type state struct{ created, revision, version int64 }

func (h *history) add(r *Row) error {
	if r.ID <= h.head {
		return fmt.Errorf("row %d comes after row %d", r.ID, h.head)
	}
	h.head, h.atCompact = r.ID, h.atCompact || r.ID == h.compacted && !r.Deleted
	c := h.record(r)
	before, known := h.keys[string(c.Key)]
	if known && r.ID <= h.compacted { // kine has compacted, and left a row
		if err := h.w.Drop(before.revision); err != nil {
			return err
		}
	}
	if c.Deleted {
		delete(h.keys, string(c.Key))
		if r.ID <= h.compacted {
			return nil
		}
		return h.w.Put(c)
	}
	number(c, r, before)
	h.keys[string(c.Key)] = state{c.CreateRevision, c.ModRevision, c.Version}
	if h.bytes += int64(len(c.Value)); h.progress != nil {
		h.progress(h.bytes)
	}
	return h.w.Put(c)
}

// number gives a key the revision of its creation, and its version. kine does not count versions: they are counted from the history that there is. A
// key whose creation was compacted has had two versions at least.
func number(c *kv.Record, r *Row, before state) {
	switch c.CreateRevision = r.CreateRevision; {
	case r.Created:
		c.CreateRevision = r.ID
	case r.CreateRevision <= 0 || r.CreateRevision > r.ID: // as old versions of kine have left it
		c.CreateRevision = cmp.Or(before.created, r.ID)
	}
	switch {
	case c.Version > 0: // the row says it
	case c.CreateRevision == r.ID:
		c.Version = 1
	default:
		c.Version = max(before.version, 1) + 1
	}
}

// record is the change that a row stands for.
func (h *history) record(r *Row) *kv.Record {
	c := &kv.Record{KeyValue: kv.KeyValue{Key: []byte(r.Name), Value: r.Value, ModRevision: r.ID}, Deleted: r.Deleted}
	if seconds := min(r.Lease, maxLease); seconds > 0 && !r.Deleted {
		c.Ends = h.now.Add(time.Duration(seconds) * time.Second).UnixNano()
	}
	switch r.Name {
	case compactKey: // no key of a client: nothing changed at its revision
		return gap(r.ID)
	case apiCompactKey:
		c.Key = []byte(compactKey)
		c.Version, c.Value = versioned(r.Value)
	}
	return c
}

// versioned takes the value of apiCompactKey apart. Old versions of kine stored the version alone.
func versioned(b []byte) (version int64, value []byte) {
	number, value, ok := bytes.Cut(b, []byte("|"))
	if !ok {
		value = []byte("0")
	}
	version, _ = strconv.ParseInt(string(number), 10, 64) // otherwise it is counted
	return version, value
}

// end completes the file. The newest revision stays what it is, also if its row is not written.
func (h *history) end() error {
	if h.head == 0 {
		return errors.New("table kine has no rows")
	}
	if h.compacted > h.head {
		return fmt.Errorf("table kine is compacted up to revision %d, and ends at %d", h.compacted, h.head)
	}
	return h.finish()
}

// finish says where the history begins. etcd's has the change at the revision to which it is compacted; kine's does not if that was a
// deletion, and so begins with the revision after it.
func (h *history) finish() error {
	if h.compacted > 0 && !h.atCompact {
		if h.compacted++; h.compacted > h.head {
			if err := h.w.Put(gap(h.compacted)); err != nil {
				return err
			}
		}
	}
	return h.w.Finish(h.compacted, h.now)
}

// gap is the change at a revision at which no key of a client changed, as kine has it.
func gap(rev int64) *kv.Record {
	return &kv.Record{KeyValue: kv.KeyValue{Key: fmt.Appendf(nil, "%s%d", gapPrefix, rev), ModRevision: rev}, Deleted: true}
}
