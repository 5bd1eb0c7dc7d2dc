package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// testAnswers gives the same operations to a database and to the model. Each
// must answer the same.
func testAnswers(t *testing.T, e Engine) {
	db := opened(t, e)
	head, err := db.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m := &model{rev: head, compacted: head, first: head}
	r := random(t)
	for n := range 1500 {
		ask := m.question(r)
		if ask == nil {
			continue
		}
		if got, want := ask(t, db), ask(t, m); got != want {
			t.Fatalf("after %d operations\ngot:  %s\nwant: %s", n, got, want)
		}
	}
}

// asked is the database or the model.
type asked interface {
	Range(ctx context.Context, r kv.Range, yield kv.Yield) (kv.Answer, error)
	Commit(ctx context.Context, t kv.Txn) (kv.Committed, error)
	Watch(ctx context.Context, w kv.Watch, deliver kv.Deliver) error
	Compact(ctx context.Context, rev int64) error
}

// question returns a random operation, which returns as text what it was
// answered.
func (m *model) question(r *rand.Rand) func(t *testing.T, db asked) string {
	rev := m.rev - r.Int64N(30) + r.Int64N(3)
	switch r.IntN(10) {
	case 0, 1, 2, 3:
		txn := randomTxn(r, m.rev)
		return func(t *testing.T, db asked) string {
			done, err := db.Commit(t.Context(), txn)
			return fmt.Sprintf("commit %+v: held %v, revision %d, else %s, failed %v", txn, done.Held, done.Rev, text(done.Else...), err != nil)
		}
	case 4, 5, 6:
		q := randomRange(r, rev)
		return func(t *testing.T, db asked) string {
			all := ""
			answer, err := db.Range(t.Context(), q, func(k kv.KeyValue) bool { all += text(&k); return true })
			if answer.More {
				answer.Count = min(answer.Count, q.Limit+1) // no more is promised
			}
			return fmt.Sprintf("%+v: %s, %+v, %v", q, all, answer, err)
		}
	case 7, 8:
		if r.IntN(15) > 0 {
			return nil // some take a tenth of a second for each
		}
		w := kv.Watch{Key: randomKey(r), Prefix: r.IntN(2) == 0, From: max(1, rev-r.Int64N(10)), Until: m.rev, Prev: r.IntN(2) == 0}
		if w.From < m.compacted {
			w.From = max(1, m.compacted-r.Int64N(2))
		}
		return func(t *testing.T, db asked) string { return fmt.Sprintf("%+v: %s", w, watched(t, db, w)) }
	}
	if r.IntN(4) > 0 || rev < m.compacted || rev <= m.first { // databases differ in whether their beginning can be compacted
		return nil
	}
	return func(t *testing.T, db asked) string { return fmt.Sprint("compact ", rev, db.Compact(t.Context(), rev)) }
}

func randomKey(r *rand.Rand) string { return []string{"a", "ab", "abc", "b", "b/c"}[r.IntN(5)] }

func randomTxn(r *rand.Rand, rev int64) (t kv.Txn) {
	for range r.IntN(3) {
		c := kv.Condition{Key: randomKey(r), Is: kv.Comparison(r.IntN(3)), N: rev - r.Int64N(20)}
		if c.Is == kv.Version {
			c.N = r.Int64N(3)
		}
		if r.IntN(3) == 0 {
			c.N = 0
		}
		t.If = append(t.If, c)
	}
	for range 1 + r.IntN(3) {
		o := kv.Op{Key: randomKey(r), Delete: r.IntN(4) == 0, Value: fmt.Append(nil, r.IntN(1000))}
		if !slices.ContainsFunc(t.Then, func(other kv.Op) bool { return other.Key == o.Key }) {
			t.Then = append(t.Then, o)
		}
	}
	if r.IntN(2) == 0 {
		t.Else, t.ElseKeys = []string{randomKey(r), randomKey(r)}[:1+r.IntN(2)], r.IntN(2) == 0
	}
	return t
}

func randomRange(r *rand.Rand, rev int64) kv.Range {
	q := kv.Range{Key: randomKey(r), Rev: max(rev, 0), CountOnly: r.IntN(4) == 0, Limit: r.Int64N(3)}
	if r.IntN(2) == 0 {
		q.Rev = 0
	}
	q.End = []string{"", kv.PrefixEnd(q.Key), kv.NoEnd}[r.IntN(3)]
	return q
}

func text(all ...*kv.KeyValue) (out string) {
	for _, k := range all {
		if k == nil {
			out += "none "
			continue
		}
		out += fmt.Sprintf("%s=%s(%d,%d,%d) ", k.Key, k.Value, k.CreateRevision, k.ModRevision, k.Version)
	}
	return out
}

// watched returns as text what a watch that has an end delivers.
func watched(t *testing.T, db asked, w kv.Watch) string {
	all, last := "", w.From-1
	var of []kv.Event
	err := db.Watch(t.Context(), w, func(events []kv.Event, rev int64) error {
		of = append(of, events...)
		last = max(last, rev)
		return nil
	})
	// The changes of one revision have no order.
	slices.SortStableFunc(of, func(a, b kv.Event) int {
		if a.ModRevision != b.ModRevision {
			return 0
		}
		return strings.Compare(string(a.Key), string(b.Key))
	})
	for _, e := range of {
		all += fmt.Sprintf("%v %s<%s", e.Deleted, text(&e.KeyValue), text(&e.Prev))
	}
	return fmt.Sprintf("%s up to %d, %v", all, last, err)
}

// model is a database as package kv describes it, at its simplest: a list of all
// changes.
type model struct {
	rev, compacted, first int64
	changes               []kv.Event
}

var _ asked = store.DB(nil)

// at returns the keys as of a revision.
func (m *model) at(rev int64) map[string]kv.KeyValue {
	keys := map[string]kv.KeyValue{}
	for _, e := range m.changes {
		switch {
		case e.ModRevision > rev:
			return keys
		case e.Deleted:
			delete(keys, string(e.Key))
		default:
			keys[string(e.Key)] = e.KeyValue
		}
	}
	return keys
}

// Range is part of asked.
func (m *model) Range(_ context.Context, r kv.Range, yield kv.Yield) (answer kv.Answer, err error) {
	rev := r.Rev
	switch {
	case rev == 0:
		rev = m.rev
	case rev > m.rev:
		return answer, kv.ErrFuture
	case rev < m.compacted:
		return answer, kv.ErrCompacted
	}
	answer.Rev = m.rev
	keys := m.at(rev)
	var in []string
	for key := range keys {
		if key == r.Key || r.End != "" && key > r.Key && (r.End == kv.NoEnd || key < r.End) {
			in = append(in, key)
		}
	}
	slices.Sort(in)
	answer.Count = int64(len(in))
	if r.CountOnly {
		return answer, nil
	}
	for n, key := range in {
		if r.Limit > 0 && int64(n) == r.Limit {
			answer.More = true
			break
		}
		yield(keys[key])
	}
	return answer, nil
}

// Commit is part of asked.
func (m *model) Commit(_ context.Context, t kv.Txn) (kv.Committed, error) {
	now := m.at(m.rev)
	if !slices.ContainsFunc(t.If, func(c kv.Condition) bool { return !holds(now[c.Key], c) }) {
		m.apply(now, t.Then)
		return kv.Committed{Held: true, Rev: m.rev}, nil
	}
	done := kv.Committed{Rev: m.rev}
	for _, key := range t.Else {
		k, ok := now[key]
		if t.ElseKeys {
			k.Value = nil
		}
		if !ok {
			done.Else = append(done.Else, nil)
		} else {
			done.Else = append(done.Else, &k)
		}
	}
	return done, nil
}

func holds(k kv.KeyValue, c kv.Condition) bool {
	switch c.Is {
	case kv.ModRevisionAtMost:
		return k.ModRevision <= c.N
	case kv.Version:
		return k.Version == c.N
	}
	return k.ModRevision == c.N
}

func (m *model) apply(now map[string]kv.KeyValue, ops []kv.Op) {
	rev := m.rev + 1
	for _, o := range ops {
		was, there := now[o.Key]
		e := kv.Event{KeyValue: kv.KeyValue{Key: []byte(o.Key), ModRevision: rev}, Deleted: o.Delete, Prev: was}
		switch {
		case o.Delete && !there:
			continue
		case o.Delete:
		case there:
			e.Value, e.CreateRevision, e.Version = o.Value, was.CreateRevision, was.Version+1
		default:
			e.Value, e.CreateRevision, e.Version = o.Value, rev, 1
		}
		m.changes, m.rev = append(m.changes, e), rev
	}
}

// Watch is part of asked.
func (m *model) Watch(_ context.Context, w kv.Watch, deliver kv.Deliver) error {
	if w.From > w.Until {
		return nil
	}
	if w.From < m.compacted {
		return kv.ErrCompacted
	}
	var out []kv.Event
	for _, e := range m.changes {
		if e.ModRevision < w.From || e.ModRevision > w.Until || string(e.Key) != w.Key && !(w.Prefix && strings.HasPrefix(string(e.Key), w.Key)) {
			continue
		}
		if !w.Prev || e.ModRevision <= m.compacted && m.compacted > 0 && e.Prev.ModRevision < m.compacted {
			e.Prev = kv.KeyValue{}
		}
		out = append(out, e)
	}
	return deliver(out, w.Until)
}

// Compact is part of asked.
func (m *model) Compact(_ context.Context, rev int64) error {
	switch {
	case rev <= m.compacted:
		return kv.ErrCompacted
	case rev > m.rev:
		return kv.ErrFuture
	}
	m.compacted = rev
	return nil
}
