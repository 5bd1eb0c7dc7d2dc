// Package layer puts a log on top of keys that are there from the beginning: many logs share them, and each stores only what it
// changes.
//
// The keys of the base are below a prefix, and look as if they had been created at the revision Since, before everything else. None
// of them is stored. The first change of one, or its deletion, stores beside it a mark that hides it for ever: the key and a zero
// byte, which no other key ends with. So what is in the log tells at each revision, to every reader, what is visible, and the
// revisions, transactions and events of the log beneath are those of this one.
package layer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Since is the revision of the keys of a base.
const Since = 1

// mark is what a key has behind it if it hides a key of the base.
const mark = "\x00"

// Base has the keys that are there from the beginning. It never changes.
type Base interface {
	// Len is how many there are.
	Len() int
	// Key returns the n-th in ascending order, below the prefix.
	Key(n int) string
	// Value returns its value.
	Value(n int) []byte
}

// DB is a log on a base. Conditions on the Version of a key of the base are not supported.
type DB struct {
	store.DB
	prefix string
	base   Base
}

// New puts a prefix of a log on a base.
func New(db store.DB, prefix string, base Base) *DB { return &DB{db, prefix, base} }

// find returns the place of a key in the base; -1: it is not there.
func (d *DB) find(key string) int {
	n := d.from(key)
	if n < d.base.Len() && d.key(n) == key {
		return n
	}
	return -1
}

// from returns the place of the first key of the base that is not before key.
func (d *DB) from(key string) int {
	below, ok := strings.CutPrefix(key, d.prefix)
	if !ok {
		if key < d.prefix {
			return 0
		}
		return d.base.Len()
	}
	lo, hi := 0, d.base.Len()
	for lo < hi {
		if mid := (lo + hi) / 2; d.base.Key(mid) < below {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

func (d *DB) key(n int) string { return d.prefix + d.base.Key(n) }

// keyValue is a key of the base as if it were stored.
func (d *DB) keyValue(n int) kv.KeyValue {
	return kv.KeyValue{Key: []byte(d.key(n)), Value: d.base.Value(n), CreateRevision: Since, ModRevision: Since, Version: 1}
}

// hides returns the place of the key that a mark hides; -1: it is no mark.
func (d *DB) hides(key []byte) int {
	if len(key) == 0 || key[len(key)-1] != mark[0] {
		return -1
	}
	return d.find(string(key[:len(key)-1]))
}

// Commit is part of store.DB.
func (d *DB) Commit(ctx context.Context, t kv.Txn) (kv.Committed, error) {
	if !d.concerns(&t) {
		return d.DB.Commit(ctx, t)
	}
	for {
		w := writing{d: d, first: map[int]bool{}, pinned: map[int]bool{}}
		if err := w.conditions(t.If); err != nil {
			return kv.Committed{}, err
		}
		pins, err := w.pin(ctx, t.Then)
		if err != nil {
			return kv.Committed{}, err
		}
		w.operations(t.Then)
		own := kv.Txn{If: w.conds, Then: w.ops, Else: w.elses(t.Else), ElseKeys: t.ElseKeys}
		done, err := d.DB.Commit(ctx, own)
		if err != nil || done.Held {
			return done, err
		}
		if again, err := w.moved(ctx, pins); err != nil || again {
			if err != nil {
				return kv.Committed{}, err
			}
			continue
		}
		done.Else = w.answers(t, done.Else)
		return done, nil
	}
}

// concerns reports whether a transaction is about a key of the base.
func (d *DB) concerns(t *kv.Txn) bool {
	return slices.ContainsFunc(t.If, func(c kv.Condition) bool { return d.find(c.Key) >= 0 }) ||
		slices.ContainsFunc(t.Then, func(o kv.Op) bool { return d.find(o.Key) >= 0 }) ||
		slices.ContainsFunc(t.Else, func(key string) bool { return d.find(key) >= 0 })
}

// writing is a transaction as it is done in the log beneath.
type writing struct {
	d     *DB
	conds []kv.Condition
	ops   []kv.Op
	// first are the keys of the base that nothing hides if the conditions hold, pinned those of which the conditions tell.
	first, pinned map[int]bool
}

// visible adds the conditions for a key of the base to be seen.
func (w *writing) visible(n int) {
	w.first[n], w.pinned[n] = true, true
	w.conds = append(w.conds, kv.Condition{Key: w.d.key(n) + mark, Is: kv.ModRevision, N: 0})
}

// hidden adds the condition for it to be hidden. A mark is put once, and never deleted.
func (w *writing) hidden(n int) {
	w.pinned[n] = true
	w.conds = append(w.conds, kv.Condition{Key: w.d.key(n) + mark, Is: kv.Version, N: 1})
}

func (w *writing) conditions(all []kv.Condition) error {
	for _, c := range all {
		n := w.d.find(c.Key)
		switch {
		case n < 0:
			w.conds = append(w.conds, c)
		case c.Is == kv.Version && c.N != 0:
			return fmt.Errorf("a condition on the version of %q, which is in the base of the log", c.Key)
		case c.Is == kv.ModRevision && c.N == Since:
			w.visible(n)
		case c.Is == kv.ModRevisionAtMost && c.N >= Since:
			w.conds = append(w.conds, c) // one that is not stored is as old
		case c.N == 0:
			w.conds = append(w.conds, c)
			w.hidden(n)
		default:
			w.conds = append(w.conds, c)
			w.pinned[n] = true
		}
	}
	return nil
}

// pin looks at the keys of the base that are changed without a condition, and makes it one that they are still as they were seen.
func (w *writing) pin(ctx context.Context, ops []kv.Op) (seen map[int]bool, err error) {
	for _, o := range ops {
		n := w.d.find(o.Key)
		if n < 0 || w.pinned[n] {
			continue
		}
		if seen == nil {
			seen = map[int]bool{}
		}
		if seen[n], err = w.d.marked(ctx, n, 0); err != nil {
			return nil, err
		}
		if seen[n] {
			w.hidden(n)
		} else {
			w.visible(n)
		}
	}
	return seen, nil
}

// moved reports whether one of the keys that pin has looked at is hidden since then.
func (w *writing) moved(ctx context.Context, seen map[int]bool) (bool, error) {
	for n, hidden := range seen {
		if now, err := w.d.marked(ctx, n, 0); err != nil || now != hidden {
			return true, err
		}
	}
	return false, nil
}

// marked reports whether a key of the base is hidden, as of a revision (0: the newest).
func (d *DB) marked(ctx context.Context, n int, rev int64) (bool, error) {
	a, err := d.DB.Range(ctx, kv.Range{Key: d.key(n) + mark, Rev: rev, CountOnly: true}, nil)
	return a.Count > 0, err
}

func (w *writing) operations(all []kv.Op) {
	for _, o := range all {
		n := w.d.find(o.Key)
		if n < 0 || !w.first[n] {
			w.ops = append(w.ops, o)
			continue
		}
		if !o.Delete {
			o.KeepTTL = false // there is none
			w.ops = append(w.ops, o)
		}
		w.ops = append(w.ops, kv.Op{Key: w.d.key(n) + mark, Value: []byte{}})
	}
}

// elses are the keys to read: for one of the base its mark too.
func (w *writing) elses(keys []string) (out []string) {
	for _, key := range keys {
		out = append(out, key)
		if w.d.find(key) >= 0 {
			out = append(out, key+mark)
		}
	}
	return out
}

// answers are the keys of Txn.Else, of those that elses has asked for.
func (w *writing) answers(t kv.Txn, read []*kv.KeyValue) []*kv.KeyValue {
	out := make([]*kv.KeyValue, len(t.Else))
	for i, key := range t.Else {
		out[i], read = read[0], read[1:]
		n := w.d.find(key)
		if n < 0 {
			continue
		}
		hidden := read[0] != nil
		read = read[1:]
		if !hidden {
			k := w.d.keyValue(n)
			if t.ElseKeys {
				k.Value = nil
			}
			out[i] = &k
		}
	}
	return out
}
