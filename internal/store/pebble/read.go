package pebble

import (
	"bytes"
	"context"
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// reader finds the newest records of keys. It belongs to who holds the lock; its view of the tree is made when it is first needed.
type reader struct {
	d  *DB
	it *pebble.Iterator
	at []byte // scratch
}

func (d *DB) newest() *reader { return &reader{d: d} }

func (r *reader) close() error {
	if r.it == nil {
		return nil
	}
	return r.it.Close()
}

// find returns the head of a key.
func (r *reader) find(key string) (head, error) {
	if h, ok := r.d.heads.get(key); ok {
		return h, nil
	}
	found, err := r.read(key)
	if err != nil {
		return head{}, err
	}
	h := head{rev: found.rev, created: found.created, version: found.version, ends: found.ends}
	r.d.heads.put(key, h)
	return h, nil
}

// read returns the newest record of a key; its version is 0 if the key does not exist. The value is valid until the next call.
func (r *reader) read(key string) (record, error) {
	if r.it == nil {
		var err error
		if r.it, err = r.d.tree.NewIter(&pebble.IterOptions{LowerBound: []byte{recordSpace}, UpperBound: spaceEnd(recordSpace)}); err != nil {
			return record{}, err
		}
	}
	r.at = binary.BigEndian.AppendUint64(appendKey(r.at[:0], key), 0) // before the newest revision
	if !r.it.SeekPrefixGE(r.at) {
		return record{}, r.it.Error()
	}
	value, err := r.it.ValueAndErr()
	if err != nil {
		return record{}, err
	}
	_, rev := ofRecord(r.it.Key())
	return recordOf(rev, value)
}

func (r *reader) holds(c kv.Condition) (bool, error) {
	v, err := r.find(c.Key)
	if err != nil {
		return false, err
	}
	if v.version == 0 {
		v = head{}
	}
	switch c.Is {
	case kv.ModRevisionAtMost:
		return v.rev <= c.N, nil
	case kv.Version:
		return v.version == c.N, nil
	default:
		return v.rev == c.N, nil
	}
}

// instead reads what a transaction wants if its conditions do not hold.
func (r *reader) instead(t kv.Txn) ([]*kv.KeyValue, error) {
	if len(t.Else) == 0 {
		return nil, nil
	}
	out := make([]*kv.KeyValue, len(t.Else))
	for n, key := range t.Else {
		v, err := r.read(key)
		if err != nil {
			return nil, err
		}
		if !v.exists() {
			continue
		}
		if t.ElseKeys {
			v.value = nil
		}
		found := v.keyValue([]byte(key))
		out[n] = &found
	}
	return out, nil
}

// Range is part of store.DB.
func (d *DB) Range(ctx context.Context, r kv.Range, yield kv.Yield) (_ kv.Answer, err error) {
	done, err := d.use(ctx)
	if err != nil {
		return kv.Answer{}, err
	}
	defer done()
	defer d.broken.RecoverFatal(&err)
	for {
		rev, head, err := d.readable(r.Rev)
		if err != nil {
			return kv.Answer{}, err
		}
		it, err := d.tree.NewIterWithContext(ctx, bounds(r))
		if err != nil {
			return kv.Answer{}, err
		}
		if rev < d.compacted.Load() { // since then: what the iterator sees is not all of it
			if err := it.Close(); err != nil || r.Rev != 0 {
				return kv.Answer{}, firstError(err, kv.ErrCompacted)
			}
			continue
		}
		s := scan{it: it, rev: rev, want: r, yield: yield, answer: kv.Answer{Rev: head}}
		err = s.run(ctx)
		return s.answer, firstError(err, it.Close())
	}
}

// readable returns the revision that rev (0: the newest) stands for, and the newest.
func (d *DB) readable(rev int64) (at, head int64, err error) {
	head = d.durable.head()
	switch {
	case rev == 0:
		return head, head, nil
	case rev > head:
		return 0, head, kv.ErrFuture
	case rev < d.compacted.Load():
		return 0, head, kv.ErrCompacted
	}
	return rev, head, nil
}

// bounds are where the records of a range are.
func bounds(r kv.Range) *pebble.IterOptions {
	o := &pebble.IterOptions{LowerBound: appendKey(nil, r.Key)}
	switch r.End {
	case "":
		o.UpperBound = appendKey(nil, r.Key)
		o.UpperBound[len(o.UpperBound)-1]++
	case kv.NoEnd:
		o.UpperBound = spaceEnd(recordSpace)
	default:
		if o.UpperBound = appendKey(nil, r.End); bytes.Compare(o.UpperBound, o.LowerBound) < 0 {
			o.UpperBound = o.LowerBound
		}
	}
	return o
}

// scan reads a range as of a revision.
type scan struct {
	it     *pebble.Iterator
	rev    int64
	want   kv.Range
	yield  kv.Yield
	answer kv.Answer
	given  int64
	seek   []byte // scratch
}

// contextEvery is how many keys are read between two looks at the context.
const contextEvery = 256

func (s *scan) run(ctx context.Context) error {
	for n, valid := 1, s.it.First(); valid; n++ {
		if n%contextEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		at := s.it.Key()
		split := len(at) - revisionBytes
		rev := int64(^binary.BigEndian.Uint64(at[split:]))
		if rev > s.rev { // newer than what is read: go to the revision, or to the next key if it did not exist then
			s.seek = binary.BigEndian.AppendUint64(append(s.seek[:0], at[:split]...), ^uint64(s.rev))
			valid = s.it.SeekGE(s.seek)
			continue
		}
		more, err := s.take(rev)
		if err != nil || !more {
			return err
		}
		valid = s.it.NextPrefix()
	}
	return s.it.Error()
}

// take passes on the record at which the iterator is. It returns false if nothing more is wanted.
func (s *scan) take(rev int64) (more bool, err error) {
	value, err := s.it.ValueAndErr()
	if err != nil {
		return false, err
	}
	r, err := recordOf(rev, value)
	if err != nil || !r.exists() {
		return true, err
	}
	s.answer.Count++
	switch {
	case s.want.CountOnly:
	case s.want.Limit > 0 && s.given == s.want.Limit:
		s.answer.More = true
		return false, nil
	default:
		s.given++
		key, _ := ofRecord(s.it.Key())
		return s.yield(r.keyValue(key)), nil
	}
	return true, nil
}
