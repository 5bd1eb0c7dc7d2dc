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

	"go.etcd.io/etcd/api/v3/mvccpb"

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
	kv, deleted := changeOf(r)
	before, known := h.keys[string(kv.Key)]
	if known && r.ID <= h.compacted { // kine has compacted, and left a row
		if err := h.w.Drop(before.revision, 0); err != nil {
			return err
		}
	}
	if deleted {
		delete(h.keys, string(kv.Key))
		if r.ID <= h.compacted {
			return nil
		}
		return h.w.Put(r.ID, 0, &mvccpb.KeyValue{Key: kv.Key})
	}
	h.number(r, kv, before)
	h.keys[string(kv.Key)] = state{kv.CreateRevision, kv.ModRevision, kv.Version}
	if kv.Lease != 0 {
		h.leases[kv.Lease] = true
	}
	if h.bytes += int64(len(kv.Value)); h.progress != nil {
		h.progress(h.bytes)
	}
	return h.w.Put(r.ID, 0, kv)
}

// number gives a key its revisions and its version. kine does not count versions: they are counted from the history that there is. A key whose
// creation was compacted has had two versions at least.
func (h *history) number(r *Row, kv *mvccpb.KeyValue, before state) {
	kv.ModRevision = r.ID
	kv.CreateRevision = r.CreateRevision
	if r.Created {
		kv.CreateRevision = r.ID
	} else if r.CreateRevision <= 0 || r.CreateRevision > r.ID { // as old versions of kine have left it
		kv.CreateRevision = cmp.Or(before.created, r.ID)
	}
	switch {
	case kv.Version > 0: // the row says it
	case kv.CreateRevision == r.ID:
		kv.Version = 1
	default:
		kv.Version = max(before.version, 1) + 1
	}
}

// changeOf is the change that a row stands for.
func changeOf(r *Row) (kv *mvccpb.KeyValue, deleted bool) {
	kv = &mvccpb.KeyValue{Key: []byte(r.Name), Value: r.Value, Lease: min(max(r.Lease, 0), maxLease)}
	switch r.Name {
	case compactKey: // no key of a client: nothing changed at its revision
		return gap(r.ID), true
	case apiCompactKey:
		kv.Key = []byte(compactKey)
		kv.Version, kv.Value = versioned(r.Value)
	}
	return kv, r.Deleted
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
		if err := h.w.Put(h.compacted, 0, gap(h.compacted)); err != nil {
			return err
		}
	}
	return h.w.Compacted(h.compacted)
}

// gap is the change at a revision at which no key of a client changed, as kine has it.
func gap(rev int64) *mvccpb.KeyValue {
	return &mvccpb.KeyValue{Key: fmt.Appendf(nil, "%s%d", gapPrefix, rev)}
}
