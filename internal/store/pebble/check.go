package pebble

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Checked counts what Check has looked at.
type Checked struct {
	Keys      int64 // that exist
	Records   int64 // keys at all revisions
	Revisions int64 // in the history
	Ends      int64 // of keys
}

// Check reads the whole database, with the checksum of every block, and compares its parts: what keys were at each revision, the history, and
// when keys end. It returns an error if they do not agree.
func (d *DB) Check(ctx context.Context) (c Checked, err error) {
	done, err := d.use(ctx)
	if err != nil {
		return c, err
	}
	defer done()
	defer func() {
		if p := recover(); p != nil { // the tree was damaged in a way that its code does not expect
			err = fmt.Errorf("%w: %v", errDamaged, p)
		}
	}()
	d.compacting.Lock() // which would change what belongs together
	defer d.compacting.Unlock()
	if err := d.tree.CheckLevels(nil); err != nil {
		return c, err
	}
	tree := d.tree.NewSnapshot()
	defer func() { err = errors.Join(err, tree.Close()) }()
	ends := map[string]int64{}
	if err := d.checkRecords(ctx, tree, &c, ends); err != nil {
		return c, err
	}
	if err := d.checkHistory(ctx, tree, &c); err != nil {
		return c, err
	}
	return c, checkEnds(tree, &c, ends)
}

// each passes the keys of a space in the tree to f.
func each(ctx context.Context, tree *pebble.Snapshot, space byte, f func(key, value []byte) error) error {
	it, err := tree.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: []byte{space}, UpperBound: spaceEnd(space)})
	if err != nil {
		return err
	}
	for valid := it.First(); valid; valid = it.Next() {
		value, err := it.ValueAndErr()
		if err == nil {
			err = f(it.Key(), value)
		}
		if err != nil {
			return errors.Join(err, it.Close())
		}
	}
	return errors.Join(it.Error(), it.Close())
}

// checkRecords looks at the records of all keys, the newer of a key first, and notes when keys end.
func (d *DB) checkRecords(ctx context.Context, tree *pebble.Snapshot, c *Checked, ends map[string]int64) error {
	var key []byte
	var newer record
	return each(ctx, tree, recordSpace, func(at, value []byte) error {
		k, rev := ofRecord(at)
		r, err := recordOf(rev, value)
		if err != nil {
			return fmt.Errorf("key %q at revision %d: %w", k, rev, err)
		}
		c.Records++
		first := !bytes.Equal(k, key)
		if first && r.exists() {
			c.Keys++
			if r.ends != 0 {
				ends[string(k)] = r.ends
			}
		}
		follows := first || newer.created == newer.rev || !newer.exists() || r.exists() && r.created == newer.created && r.version+1 == newer.version
		if !follows || rev <= 0 || r.exists() && (r.created > rev || r.version == 1 && r.created != rev) {
			return fmt.Errorf("key %q at revision %d: %w: it does not fit the change after it", k, rev, errDamaged)
		}
		key, newer = k, record{rev: rev, created: r.created, version: r.version}
		return nil
	})
}

// checkHistory looks whether the history has every revision, and a record of every change.
func (d *DB) checkHistory(ctx context.Context, tree *pebble.Snapshot, c *Checked) error {
	compacted, next := d.compacted.Load(), int64(0)
	return each(ctx, tree, changesSpace, func(at, value []byte) error {
		rev := ofRevision(at)
		changes, err := changesOf(value)
		if err != nil {
			return fmt.Errorf("revision %d: %w", rev, err)
		}
		if next != 0 && rev != next && rev > compacted {
			return fmt.Errorf("%w: revision %d is followed by %d", errDamaged, next-1, rev)
		}
		next = rev + 1
		c.Revisions++
		for _, ch := range changes {
			if rev <= compacted {
				break // a newer one may have taken its place
			}
			b, done, err := tree.Get(recordKey(ch.key, rev))
			if err != nil {
				return fmt.Errorf("key %q at revision %d, which changed it: %w", ch.key, rev, err)
			}
			r, err := recordOf(rev, b)
			if err := errors.Join(err, done.Close()); err != nil || r.exists() == ch.deleted {
				return fmt.Errorf("key %q at revision %d: %w: the history says otherwise", ch.key, rev, errors.Join(errDamaged, err))
			}
		}
		return nil
	})
}

// checkEnds compares when keys end with the index by time.
func checkEnds(tree *pebble.Snapshot, c *Checked, ends map[string]int64) error {
	err := each(context.Background(), tree, endsSpace, func(at, _ []byte) error {
		c.Ends++
		if when, key := ofEnd(at); ends[key] != when {
			return fmt.Errorf("key %q: %w: it is to end at %d, and says %d", key, errDamaged, when, ends[key])
		}
		return nil
	})
	if err == nil && c.Ends != int64(len(ends)) {
		err = fmt.Errorf("%w: %d keys end, and %d are to be deleted", errDamaged, len(ends), c.Ends)
	}
	return err
}
