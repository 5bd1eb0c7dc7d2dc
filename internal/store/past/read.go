package past

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// reader reads a kind as of one moment of the tree.
type reader struct {
	past     *Past
	tree     *pebble.Snapshot
	kind     string
	segments []*cursor // oldest first
}

// read begins to read a kind from a revision on. The caller closes the reader, and has used the tree until then.
func (p *Past) read(ctx context.Context, kind string, rev int64) (*reader, error) {
	p.mu.Lock()
	if rev < p.sinceLocked(kind) {
		p.mu.Unlock()
		return nil, kv.ErrCompacted
	}
	r := &reader{past: p, tree: p.tree.NewSnapshot(), kind: kind}
	var segments []segment
	if k := p.kinds[kind]; k != nil {
		segments = k.from(rev)
	}
	p.mu.Unlock()
	for _, s := range segments {
		place := segmentKey(changeSpace, kind, s.number)
		it, err := r.tree.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: place, UpperBound: end(place)})
		if err != nil {
			return nil, errors.Join(err, r.close())
		}
		r.segments = append(r.segments, &cursor{it: it, place: place, first: s.first})
	}
	return r, nil
}

func (r *reader) close() (err error) {
	for _, c := range r.segments {
		err = errors.Join(err, c.it.Close())
	}
	return errors.Join(err, r.tree.Close())
}

// at returns what a key, below the kind, was at a revision; known is false if no segment tells: it is what the log has.
func (r *reader) at(key string, rev int64) (k *kv.KeyValue, known bool, err error) {
	for n, c := range r.segments {
		if n+1 < len(r.segments) && r.segments[n+1].first <= rev {
			continue // what is here was so until an earlier revision
		}
		if k, known, err = c.at(key, rev); known || err != nil {
			break
		}
	}
	if k != nil {
		k.Key = []byte(r.past.Prefix + r.kind + key)
	}
	return k, known, err
}

// cursor reads a segment.
type cursor struct {
	it    *pebble.Iterator
	place []byte
	first int64  // the revision of its first change
	key   string // that next has come to
	over  bool
}

// at is that of reader, of one segment.
func (c *cursor) at(key string, rev int64) (*kv.KeyValue, bool, error) {
	if c.it.SeekLT(appendChange(c.place, key, rev+1)) {
		if found, mod := ofChange(len(c.place), c.it.Key()); found == key {
			value, what, _, err := c.value(key)
			if err != nil || what&form == deleted {
				return nil, true, err
			}
			k := &kv.KeyValue{Value: value, ModRevision: mod, CreateRevision: 1}
			if what&created != 0 {
				k.CreateRevision = mod
			}
			return k, true, nil
		}
	}
	if err := c.it.Error(); err != nil {
		return nil, false, err
	}
	// It was created later in this segment, or is not in it.
	if c.it.SeekGE(appendChange(c.place, key, 0)) {
		found, _ := ofChange(len(c.place), c.it.Key())
		return nil, found == key, nil
	}
	return nil, false, c.it.Error()
}

// value returns the value of the change that the cursor is at, what the change is, and of how many deltas it is made.
func (c *cursor) value(key string) (value []byte, what byte, depth int, err error) {
	var deltas [][]byte
	for {
		is, err := c.it.ValueAndErr()
		if err != nil {
			return nil, 0, 0, err
		}
		kind, _, rest, err := ofEntry(is)
		if err != nil {
			return nil, 0, 0, err
		}
		if len(deltas) == 0 {
			what = kind
		}
		rest = bytes.Clone(rest) // until the cursor moves
		if kind&form != delta {
			value = rest
			break
		}
		deltas = append(deltas, rest)
		if !c.it.Prev() {
			return nil, 0, 0, errors.Join(errDamaged, c.it.Error())
		}
		if found, _ := ofChange(len(c.place), c.it.Key()); found != key || len(deltas) > longest {
			return nil, 0, 0, errDamaged
		}
	}
	for n := len(deltas) - 1; n >= 0; n-- {
		if value, err = applyDelta(value, deltas[n]); err != nil {
			return nil, 0, 0, err
		}
	}
	return value, what, len(deltas), nil
}

// seek comes to the first key from one on.
func (c *cursor) seek(from string) error {
	c.arrive(c.it.SeekGE(append(c.place[:len(c.place):len(c.place)], from...)))
	return c.it.Error()
}

// next comes to the key after the one that it is at.
func (c *cursor) next() error {
	after := append(append(c.place[:len(c.place):len(c.place)], c.key...), 1)
	c.arrive(c.it.SeekGE(after))
	return c.it.Error()
}

func (c *cursor) arrive(ok bool) {
	if c.over = !ok; ok {
		c.key, _ = ofChange(len(c.place), c.it.Key())
	}
}

// changed passes on, in their order, the keys from one on that changed in the segments of the reader; of each it tells what it was at a
// revision, nil if it did not exist.
func (r *reader) changed(from string, rev int64, yield func(key string, k *kv.KeyValue) (more bool)) error {
	if after, ok := strings.CutSuffix(from, "\x00"); ok {
		from = after + "\x01" // a key's changes begin with the key and a zero
	}
	for _, c := range r.segments {
		if err := c.seek(from); err != nil {
			return err
		}
	}
	for {
		var least string
		over := true
		for _, c := range r.segments {
			if !c.over && (over || c.key < least) {
				least, over = c.key, false
			}
		}
		if over {
			return nil
		}
		k, _, err := r.at(least, rev)
		if err != nil || !yield(least, k) {
			return err
		}
		for _, c := range r.segments {
			if !c.over && c.key == least {
				if err := c.next(); err != nil {
					return err
				}
			}
		}
	}
}

// Changed passes on the keys of a kind that have changed since a revision: with what each was then, nil if it did not exist. Of a kind that is
// not kept it passes on nothing. Errors: kv.ErrCompacted, kv.ErrFuture.
func (p *Past) Changed(ctx context.Context, kind string, rev int64, yield func(key string, k *kv.KeyValue)) (err error) {
	done, err := p.use()
	if err != nil {
		return err
	}
	defer done()
	defer p.broken.RecoverFatal(&err)
	if !p.Keeps(kind) {
		return nil
	}
	if err := p.await(ctx, kind, rev); err != nil {
		return err
	}
	r, err := p.read(ctx, kind, rev)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	return r.changed("", rev, func(key string, k *kv.KeyValue) bool {
		yield(kind+key, k)
		return ctx.Err() == nil
	})
}

// KeepsKey says whether changes of a key of the log are kept.
func (p *Past) KeepsKey(key string) bool {
	below, ok := strings.CutPrefix(key, p.Prefix)
	return ok && p.Keeps(kindOf(below))
}

// Rewind passes on all keys that have changed since a revision and existed then, with what each was. Errors: kv.ErrCompacted, kv.ErrFuture.
func (p *Past) Rewind(ctx context.Context, rev int64, yield func(k *kv.KeyValue) error) error {
	head, err := p.Log.Head(ctx)
	if err != nil {
		return err
	}
	if rev > head {
		return kv.ErrFuture
	}
	if err := p.Reach(ctx, head); err != nil {
		return err
	}
	kinds, begun := p.changedKinds()
	if rev < begun {
		return kv.ErrCompacted
	}
	for _, kind := range kinds {
		var failed error
		err := p.Changed(ctx, kind, rev, func(_ string, k *kv.KeyValue) {
			if k != nil && failed == nil {
				failed = yield(k)
			}
		})
		if err := errors.Join(err, failed); err != nil {
			return err
		}
	}
	return nil
}

// changedKinds are the kinds of which changes are here, and the revision from which on the others are known.
func (p *Past) changedKinds() (kinds []string, begun int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.kinds)), p.begun
}

// Known is the revision from which on the past of all kinds is known, when that was, and the kind of which least is known; "": all began then.
func (p *Past) Known() (rev int64, at time.Time, kind string, err error) {
	done, err := p.use()
	if err != nil {
		return 0, at, "", err
	}
	defer done()
	defer p.broken.RecoverFatal(&err)
	kinds, rev := p.changedKinds()
	for _, k := range kinds {
		if since := p.Since(k); p.Keeps(k) && since > rev {
			rev, kind = since, k
		}
	}
	it, err := p.tree.NewIter(&pebble.IterOptions{LowerBound: []byte{timeSpace}, UpperBound: []byte{timeSpace + 1}})
	if err != nil {
		return 0, at, "", err
	}
	for ok := it.First(); ok; ok = it.Next() {
		if reached, _ := binary.Varint(it.Value()); reached >= rev {
			at = time.UnixMilli(ofNumbered(it.Key())).UTC()
			break
		}
	}
	return rev, at, kind, errors.Join(it.Error(), it.Close())
}

// firstPage is how many keys of the log are read at a time.
const firstPage = 500

// Range reads keys as of a revision, r.Rev, as store.DB does. Errors: kv.ErrCompacted, kv.ErrFuture.
func (p *Past) Range(ctx context.Context, r kv.Range, yield kv.Yield) (answer kv.Answer, err error) {
	done, err := p.use()
	if err != nil {
		return answer, err
	}
	defer done()
	defer p.broken.RecoverFatal(&err)
	kind := kindOf(strings.TrimPrefix(r.Key, p.Prefix))
	if err := p.await(ctx, kind, r.Rev); err != nil {
		return answer, err
	}
	m := merging{r: r, yield: yield}
	for from := r.Key; !m.over; {
		if from, err = p.page(ctx, kind, from, &m); err != nil {
			return answer, err
		}
	}
	m.answer.Rev = p.Reached()
	return m.answer, nil
}

// merging is a Range that is being answered.
type merging struct {
	r      kv.Range
	yield  kv.Yield
	answer kv.Answer
	passed int64
	over   bool
}

// pass passes a key on. It returns false once nothing more is wanted.
func (m *merging) pass(k *kv.KeyValue) bool {
	if k == nil {
		return true
	}
	m.answer.Count++
	switch {
	case m.r.CountOnly:
	case m.r.Limit > 0 && m.passed == m.r.Limit:
		m.answer.More, m.over = true, true
	default:
		m.passed++
		m.over = !m.yield(*k)
	}
	return !m.over
}

// page passes on what some keys of the log, and those that were between them, were at a revision. It returns where to go on.
func (p *Past) page(ctx context.Context, kind, from string, m *merging) (next string, err error) {
	type current struct {
		key string
		is  kv.KeyValue
	}
	var live []current
	ask := kv.Range{Key: from, End: m.r.End, Limit: firstPage}
	if m.r.End == "" {
		ask.Limit = 0
	} else if m.r.Limit > 0 {
		ask.Limit = min(m.r.Limit+1, firstPage)
	}
	answer, err := p.Log.Range(ctx, ask, func(k kv.KeyValue) bool {
		live = append(live, current{string(k.Key), k})
		return true
	})
	if err != nil {
		return "", err
	}
	// What has changed until the log was read must be here too.
	if err := p.Reach(ctx, answer.Rev); err != nil {
		return "", err
	}
	until := m.r.End // the first key that is not for this page
	if answer.More && len(live) > 0 {
		next = kv.After([]byte(live[len(live)-1].key))
		until = next
	} else {
		defer func() { m.over = true }()
	}
	r, err := p.read(ctx, kind, m.r.Rev)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	path := p.Prefix + kind
	if m.r.End == "" {
		k, known, err := r.at(from[len(path):], m.r.Rev)
		if err == nil && !known && len(live) > 0 {
			k, err = liveAt(&live[0].is, m.r.Rev)
		}
		if err == nil {
			m.pass(k)
		}
		return "", err
	}
	var failed error
	passLive := func(before string) bool { // what lies before a key
		for len(live) > 0 && (before == "" || live[0].key < before) {
			k, err := liveAt(&live[0].is, m.r.Rev)
			live = live[1:]
			if failed = err; err != nil || !m.pass(k) {
				return false
			}
		}
		return true
	}
	stopped := false
	err = r.changed(from[min(len(path), len(from)):], m.r.Rev, func(key string, k *kv.KeyValue) bool {
		if key = path + key; until != kv.NoEnd && key >= until || ctx.Err() != nil {
			return false
		}
		if stopped = !passLive(key); stopped {
			return false
		}
		if len(live) > 0 && live[0].key == key {
			live = live[1:]
		}
		stopped = !m.pass(k)
		return !stopped
	})
	if !stopped && err == nil {
		passLive("")
	}
	return next, errors.Join(err, failed, ctx.Err())
}

// errMissing says that a change was not recorded that must have been.
var errMissing = errors.New("the history is incomplete")

// liveAt returns what the log has of a key that has not changed since a revision.
func liveAt(k *kv.KeyValue, rev int64) (*kv.KeyValue, error) {
	if k.ModRevision > rev {
		return nil, errMissing
	}
	return k, nil
}

// Asked returns the revision that a text stands for: a revision, the newest one at a time, or so long ago. Errors: *store.MomentError, kv.ErrCompacted.
func (p *Past) Asked(text string) (int64, error) {
	if rev, err := strconv.ParseInt(text, 10, 64); err == nil && rev > 0 {
		return rev, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		ago, err := time.ParseDuration(text)
		if err != nil || ago < 0 {
			return 0, &store.MomentError{Text: text}
		}
		t = p.Clock.Now().Add(-ago)
	}
	return p.at(t)
}

// at returns the newest revision that was reached at a time, or kv.ErrCompacted.
func (p *Past) at(t time.Time) (rev int64, err error) {
	done, err := p.use()
	if err != nil {
		return 0, err
	}
	defer done()
	defer p.broken.RecoverFatal(&err)
	ms := t.UnixMilli()
	it, err := p.tree.NewIter(&pebble.IterOptions{LowerBound: []byte{timeSpace}, UpperBound: []byte{timeSpace + 1}})
	if err != nil {
		return 0, err
	}
	ok := it.SeekLT(numbered(timeSpace, ms+1))
	if ok {
		rev, _ = binary.Varint(it.Value())
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return 0, err
	}
	if !ok {
		return 0, kv.ErrCompacted
	}
	return rev, nil
}
