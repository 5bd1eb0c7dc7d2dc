package layer

import (
	"context"
	"errors"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Range is part of store.DB.
func (d *DB) Range(ctx context.Context, r kv.Range, yield kv.Yield) (kv.Answer, error) {
	if d.hides([]byte(r.Key)) >= 0 {
		r.Key += mark // a reader goes on after a key; nobody sees its mark
	}
	lo, hi := d.between(r)
	if lo >= hi {
		return d.DB.Range(ctx, r, yield)
	}
	return d.merged(ctx, r, lo, hi, yield)
}

// between returns which keys of the base are in a range: from lo to hi.
func (d *DB) between(r kv.Range) (lo, hi int) {
	lo = d.from(r.Key)
	switch r.End {
	case "":
		if n := d.find(r.Key); n >= 0 {
			return n, n + 1
		}
		return lo, lo
	case kv.NoEnd:
		return lo, d.base.Len()
	}
	return lo, d.from(r.End)
}

// merged reads a range that has keys of the base.
func (d *DB) merged(ctx context.Context, r kv.Range, lo, hi int, yield kv.Yield) (kv.Answer, error) {
	own := r
	switch {
	case r.End == "":
		own.End = r.Key + mark + mark // the key and its mark
	case d.hides([]byte(r.End)) >= 0:
		own.End += mark // the mark of the last key
	}
	if r.Limit > 0 {
		own.Limit = r.Limit + int64(2*(hi-lo)) // of which so many may be marks, or hidden
	}
	m := merge{d: d, next: lo, end: hi, limit: r.Limit, yield: yield}
	answer, err := d.DB.Range(ctx, own, m.take)
	if err != nil {
		return answer, err
	}
	whole := !r.CountOnly && !answer.More && !m.stopped
	if whole {
		m.flush("")
	} else if m.hidden, err = d.hidden(ctx, r.Rev, answer.Rev, lo, hi); err != nil {
		return answer, err
	}
	// Of the keys that are stored some are marks; of the base some are hidden.
	answer.Count += int64(hi - lo - 2*m.hidden)
	answer.More = !r.CountOnly && r.Limit > 0 && answer.Count > r.Limit
	return answer, nil
}

// hidden returns how many of the keys from lo to hi are hidden, as of the revision that was asked for, or the one that was read.
func (d *DB) hidden(ctx context.Context, asked, read int64, lo, hi int) (count int, err error) {
	rev := asked
	if rev == 0 {
		rev = read
	}
	for n := lo; n < hi; n++ {
		marked, err := d.marked(ctx, n, rev)
		if asked == 0 && errors.Is(err, kv.ErrCompacted) {
			marked, err = d.marked(ctx, n, 0) // only the count is a moment newer
		}
		if err != nil {
			return 0, err
		}
		if marked {
			count++
		}
	}
	return count, nil
}

// merge passes the keys of a range on, those of the base in their places.
type merge struct {
	d         *DB
	next, end int // the keys of the base that are left
	limit     int64
	yield     kv.Yield
	passed    int64
	hidden    int  // marks
	stopped   bool // nothing more is wanted
}

// take is given the stored keys in their order: that of the base first, if it is stored, then its mark.
func (m *merge) take(k kv.KeyValue) bool {
	if n := m.d.hides(k.Key); n >= 0 {
		m.flush(m.d.key(n))
		m.next = max(m.next, n+1)
		m.hidden++
		return !m.stopped
	}
	m.flush(string(k.Key))
	if m.next < m.end && m.d.key(m.next) == string(k.Key) {
		m.next++
	}
	m.pass(k)
	return !m.stopped
}

// flush passes on the keys of the base that are before a key; "": all that are left.
func (m *merge) flush(before string) {
	for ; !m.stopped && m.next < m.end && (before == "" || m.d.key(m.next) < before); m.next++ {
		m.pass(m.d.keyValue(m.next))
	}
}

func (m *merge) pass(k kv.KeyValue) {
	if m.stopped {
		return
	}
	m.passed++
	m.stopped = !m.yield(k) || m.limit > 0 && m.passed == m.limit
}
