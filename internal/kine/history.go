package kine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/kanzen-io/kanzen/internal/store/dbfile"
)

const (
	compactKey    = "compact_rev_key"           // kine's own
	apiCompactKey = "compact_rev_key_apiserver" // of API servers, which call it compactKey
	gapPrefix     = "gap-"

	// maxLease is etcd's bound of the seconds of a lease.
	maxLease = 9_000_000_000
)

// Save writes a file of etcd's database with the history that a source has. progress is called with the number of bytes of values so far;
// nil: it is not.
func Save(ctx context.Context, from Source, path string, progress func(bytes int64)) error {
	compacted, err := from.Compacted(ctx)
	if err != nil {
		return err
	}
	w, err := dbfile.Create(path)
	if err != nil {
		return err
	}
	h := history{w: w, compacted: compacted, keys: map[string]state{}, leases: map[int64]bool{}, progress: progress}
	err = from.Rows(ctx, h.add)
	if err == nil {
		err = h.end()
	}
	if err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.Close()
}

// history turns rows into changes.
type history struct {
	w         *dbfile.Writer
	compacted int64
	head      int64            // the newest revision so far
	atCompact bool             // there is a row of revision compacted
	keys      map[string]state // that exist at head
	leases    map[int64]bool
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
	c := changeOf(r)
	before, known := h.keys[string(c.Key)]
	if known && r.ID <= h.compacted { // kine has compacted, and left a row
		if err := h.w.Drop(before.revision, 0); err != nil {
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
	number(&c, r, before)
	h.keys[string(c.Key)] = state{c.Created, c.Rev, c.Version}
	if c.Lease != 0 {
		h.leases[c.Lease] = true
	}
	if h.bytes += int64(len(c.Value)); h.progress != nil {
		h.progress(h.bytes)
	}
	return h.w.Put(c)
}

// number gives a key the revision of its creation, and its version. kine does not count versions: they are counted from the history that there is. A
// key whose creation was compacted has had two versions at least.
func number(c *dbfile.Change, r *Row, before state) {
	switch c.Created = r.CreateRevision; {
	case r.Created:
		c.Created = r.ID
	case r.CreateRevision <= 0 || r.CreateRevision > r.ID: // as old versions of kine have left it
		c.Created = cmp.Or(before.created, r.ID)
	}
	switch {
	case c.Version > 0: // the row says it
	case c.Created == r.ID:
		c.Version = 1
	default:
		c.Version = max(before.version, 1) + 1
	}
}

// changeOf is the change that a row stands for.
func changeOf(r *Row) dbfile.Change {
	c := dbfile.Change{Rev: r.ID, Key: []byte(r.Name), Value: r.Value, Lease: min(max(r.Lease, 0), maxLease), Deleted: r.Deleted}
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
	err := h.endCompaction()
	for _, seconds := range slices.Sorted(maps.Keys(h.leases)) { // a lease of kine's is its seconds
		err = errors.Join(err, h.w.Lease(seconds, seconds))
	}
	return err
}

// endCompaction says where the history begins. etcd's has the change at the revision to which it is compacted; kine's does not if that was a
// deletion, and so begins with the revision after it.
func (h *history) endCompaction() error {
	if h.compacted == 0 || h.atCompact {
		return h.w.Compacted(h.compacted)
	}
	if h.compacted++; h.compacted > h.head {
		if err := h.w.Put(gap(h.compacted)); err != nil {
			return err
		}
	}
	return h.w.Compacted(h.compacted)
}

// gap is the change at a revision at which no key of a client changed, as kine has it.
func gap(rev int64) dbfile.Change {
	return dbfile.Change{Rev: rev, Key: fmt.Appendf(nil, "%s%d", gapPrefix, rev), Deleted: true}
}
