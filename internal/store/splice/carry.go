package splice

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"

	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// magic is what the value of a key begins with that was carried. The key's revisions and its version follow, as varints, then the value
// itself. No value of an API object begins so, and users cannot write others.
var magic = []byte("kanzen/carried\x00")

// Carry is the value for a key in the log that it is carried into.
func Carry(k kv.KeyValue) []byte {
	out := slices.Clone(magic)
	for _, n := range []int64{k.CreateRevision, k.ModRevision, k.Version} {
		out = binary.AppendUvarint(out, uint64(n))
	}
	return append(out, k.Value...)
}

// carried returns a key as it was in the log that it comes from; ok is false if it was changed since.
func carried(k kv.KeyValue) (_ kv.KeyValue, ok bool) {
	rest, ok := bytes.CutPrefix(k.Value, magic)
	if !ok {
		return k, false
	}
	was := k
	for _, to := range []*int64{&was.CreateRevision, &was.ModRevision, &was.Version} {
		n, size := binary.Uvarint(rest)
		if size <= 0 || n > never {
			return k, false
		}
		*to, rest = int64(n), rest[size:]
	}
	was.Value = rest
	return was, true
}

// Values is a log whose values are what they were before they were carried. Its revisions are its own.
func Values(db store.DB) store.DB { return &values{db} }

type values struct{ store.DB }

func plain(k kv.KeyValue) kv.KeyValue {
	if was, ok := carried(k); ok {
		k.Value = was.Value
	}
	return k
}

// Range is part of store.DB.
func (v *values) Range(ctx context.Context, r kv.Range, yield kv.Yield) (kv.Answer, error) {
	if yield == nil {
		return v.DB.Range(ctx, r, nil)
	}
	return v.DB.Range(ctx, r, func(k kv.KeyValue) bool { return yield(plain(k)) })
}

// Commit is part of store.DB.
func (v *values) Commit(ctx context.Context, t kv.Txn) (kv.Committed, error) {
	done, err := v.DB.Commit(ctx, t)
	done.Else = slices.Clone(done.Else)
	for n, k := range done.Else {
		if k != nil {
			seen := plain(*k)
			done.Else[n] = &seen
		}
	}
	return done, err
}

// Watch is part of store.DB.
func (v *values) Watch(ctx context.Context, w kv.Watch, deliver kv.Deliver) error {
	return v.DB.Watch(ctx, w, func(events []kv.Event, rev int64) error {
		events = slices.Clone(events)
		for n := range events {
			events[n].KeyValue, events[n].Prev = plain(events[n].KeyValue), plain(events[n].Prev)
		}
		return deliver(events, rev)
	})
}
