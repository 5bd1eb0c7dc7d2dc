package snapshot

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/kanzen-io/kanzen/internal/base/space"
	"github.com/kanzen-io/kanzen/internal/store/etcdfile"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Beyond has what a database has dropped: a past.Past.
type Beyond interface {
	// KeepsKey says whether changes of a key are kept.
	KeepsKey(key string) bool
	// Rewind passes on all keys that have changed since a revision and existed then, with what each was. Errors: kv.ErrCompacted.
	Rewind(ctx context.Context, rev int64, yield func(k *kv.KeyValue) error) error
}

// At makes snapshots of what a database held earlier.
type At struct {
	DB kv.Recorded
	// Beyond is asked for what DB has dropped; nil: that is not kept.
	Beyond Beyond
	// Dir is a directory of its own for what is being made; it is created.
	Dir string
}

// atNeedBytes is the free space below which a snapshot is given up: the database needs it more.
const atNeedBytes = 128 << 20

// Begin removes what an earlier process has left.
func (a *At) Begin() error { return etcdfile.RemoveLeft(a.Dir) }

// Stream streams a snapshot of a revision, which is the snapshot's newest. Keys of which no history is kept are as they are now, if they have
// changed before the last compaction. Errors:
// kv.ErrCompacted, kv.ErrFuture.
func (a *At) Stream(ctx context.Context, rev int64) (io.ReadCloser, error) {
	if err := os.MkdirAll(a.Dir, 0o700); err != nil {
		return nil, err
	}
	return etcdfile.Stream(a.Dir, func(path string) error { return a.write(ctx, path, rev) })
}

func (a *At) write(ctx context.Context, path string, rev int64) (err error) {
	w, err := etcdfile.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	back := rewinding{At: a, rev: rev, file: w, created: map[string]int64{}, known: map[string]bool{}, disk: space.Reserve{Dir: a.Dir, Need: atNeedBytes}}
	if err := a.DB.Records(ctx, kv.Reading{Begin: back.begin, ByRevision: true}, back.record); err != nil {
		return err
	}
	if back.compacted <= rev {
		return w.Finish(back.compacted, time.Now())
	}
	if err := a.Beyond.Rewind(ctx, rev, back.beyond); err != nil {
		return err
	}
	return w.Finish(rev, time.Now())
}

// rewinding makes a file of what was at a revision.
type rewinding struct {
	*At
	rev       int64
	compacted int64
	file      *etcdfile.Writer
	// created has the keys that were changed since, and existed already, with the revision of their creation.
	created map[string]int64
	// known has the keys without a history of which it is known all the same what they were.
	known map[string]bool
	disk  space.Reserve
}

func (r *rewinding) begin(e kv.Extent) error {
	r.compacted = e.Compacted
	switch {
	case r.rev > e.Head:
		return kv.ErrFuture
	case r.rev < e.Compacted && r.Beyond == nil:
		return kv.ErrCompacted
	}
	return nil
}

// record takes a record of the database. Those up to the revision that are still there tell what their keys were then: either the history
// is complete since, or nothing has changed the key up to the compaction.
func (r *rewinding) record(k *kv.Record) error {
	switch {
	case k.ModRevision <= r.rev:
		if r.rev < r.compacted && !r.Beyond.KeepsKey(string(k.Key)) {
			r.known[string(k.Key)] = true
		}
		return r.put(k)
	case r.rev >= r.compacted || !k.Newest || k.Deleted:
		return nil
	case r.Beyond.KeepsKey(string(k.Key)):
		if k.CreateRevision <= r.rev {
			r.created[string(k.Key)] = k.CreateRevision
		}
		return nil
	case r.known[string(k.Key)]:
		return nil
	}
	now := *k
	now.ModRevision, now.CreateRevision = r.rev, min(k.CreateRevision, r.rev)
	return r.put(&now)
}

// beyond takes a key as it was at the revision.
func (r *rewinding) beyond(k *kv.KeyValue) error {
	if has, err := r.file.Has(k.ModRevision, k.Key); has || err != nil {
		return err
	}
	was := &kv.Record{KeyValue: *k}
	if created := r.created[string(k.Key)]; created != 0 && created <= k.ModRevision {
		was.CreateRevision = created
	}
	if was.Version = 1; was.CreateRevision < was.ModRevision { // how often it was changed is not known
		was.Version = 2
	}
	return r.put(was)
}

func (r *rewinding) put(k *kv.Record) error {
	if err := r.disk.Room(); err != nil {
		return err
	}
	return r.file.Put(k)
}
