package pebble

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Compact is part of store.DB.
func (d *DB) Compact(ctx context.Context, rev int64) (err error) {
	done, err := d.use(ctx)
	if err != nil {
		return err
	}
	defer done()
	defer d.broken.Recover(&err)
	d.compacting.Lock()
	defer d.compacting.Unlock()
	switch {
	case rev <= d.compacted.Load():
		return kv.ErrCompacted
	case rev > d.durable.head():
		return kv.ErrFuture
	}
	if err := d.tree.Set(compactedKey, binary.BigEndian.AppendUint64(nil, uint64(rev)), pebble.Sync); err != nil {
		return err
	}
	d.compacted.Store(rev) // readers are told from here on, before anything goes
	return d.sweep(ctx)
}

// sweepRevisions is how many revisions are dropped at a time.
const sweepRevisions = 1000

// sweep drops what is older than the compacted revision. What it has dropped is not in the history any more, so that it goes on there if
// it was interrupted, also by the end of the process.
func (d *DB) sweep(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-d.closing:
			return errClosed
		case <-d.broken.Happened:
			return d.broken.Err()
		default:
		}
		done, err := d.sweepSome(d.compacted.Load())
		if done || err != nil {
			return err
		}
	}
}

// sweepSome drops the oldest revisions before rev.
func (d *DB) sweepSome(rev int64) (done bool, err error) {
	first, last, keys, err := d.changedBefore(rev)
	if err != nil || keys == nil {
		return true, err
	}
	it, err := d.tree.NewIter(&pebble.IterOptions{LowerBound: []byte{recordSpace}, UpperBound: spaceEnd(recordSpace)})
	if err != nil {
		return false, err
	}
	defer func() { err = firstError(err, it.Close()) }()
	b := d.tree.NewBatch()
	defer func() { err = firstError(err, b.Close()) }()
	for key := range keys {
		if err := dropBefore(b, it, key, rev); err != nil {
			return false, err
		}
	}
	end := min(last+1, rev) // the revision that readers may still begin at stays
	if err := b.DeleteRange(revisionKey(first), revisionKey(end), nil); err != nil {
		return false, err
	}
	// If this is lost, it is done again.
	return last >= rev, d.tree.Apply(b, pebble.NoSync)
}

// changedBefore returns the first revisions of the history up to rev, and the keys that they changed; nil: there are none before rev.
func (d *DB) changedBefore(rev int64) (first, last int64, keys map[string]struct{}, err error) {
	it, err := d.tree.NewIter(&pebble.IterOptions{LowerBound: []byte{changesSpace}, UpperBound: revisionKey(rev + 1)})
	if err != nil {
		return 0, 0, nil, err
	}
	defer func() { err = firstError(err, it.Close()) }()
	for valid, n := it.First(), 0; valid && n < sweepRevisions; valid, n = it.Next(), n+1 {
		last = ofRevision(it.Key())
		if n == 0 {
			if first = last; first == rev {
				return 0, 0, nil, nil
			}
			keys = map[string]struct{}{}
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return 0, 0, nil, err
		}
		changes, err := changesOf(value)
		if err != nil {
			return 0, 0, nil, err
		}
		for _, c := range changes {
			keys[string(c.key)] = struct{}{}
		}
	}
	return first, last, keys, it.Error()
}

// dropBefore deletes the records of a key that nobody can read any more: all before the one that is current at rev, and that one too if
// it says that the key was deleted.
func dropBefore(b *pebble.Batch, it *pebble.Iterator, key string, rev int64) error {
	current := true
	for valid := it.SeekPrefixGE(recordKey(key, rev)); valid; valid, current = it.Next(), false {
		if current {
			value, err := it.ValueAndErr()
			if err != nil {
				return err
			}
			_, at := ofRecord(it.Key())
			r, err := recordOf(at, value)
			if err != nil {
				return err
			}
			if r.exists() {
				continue
			}
		}
		if err := b.Delete(it.Key(), nil); err != nil {
			return err
		}
	}
	return it.Error()
}

// readCompacted reads how far the history is compacted.
func readCompacted(tree *pebble.DB) (int64, error) {
	b, done, err := tree.Get(compactedKey)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer func() { _ = done.Close() }()
	if len(b) != 8 {
		return 0, errDamaged
	}
	return int64(binary.BigEndian.Uint64(b)), nil
}
