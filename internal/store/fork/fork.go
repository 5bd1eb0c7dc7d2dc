// Package fork is a log in memory that begins with what another one held at a moment (store.Cut), and goes its own way from there. It
// copies nothing: a key is taken up when it is first written.
package fork

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/memory"
)

// DB is a forked log. Its history begins at the cut.
type DB struct {
	*memory.DB
	cut *store.Cut

	// mu is held while a transaction is committed and noted, so that whoever has seen a write finds it in Written, and of two writes of
	// a key the later one is noted last.
	mu sync.Mutex
	// written is what becomes of keys, and relied the keys that it depended on; guarded by mu. What ends by itself is not noted.
	written map[string]kv.Op
	relied  map[string]bool
	// asked are the keys that were written by requests from outside (Outside), with what the first such request of each was about; guarded
	// by mu.
	asked map[string]Asked
}

// Asked is the first write of a key by a request from outside.
type Asked struct {
	// N counts such keys, from 1 on.
	N int
	// About is the resource that the request is about. It may have written keys of others besides.
	About string
}

type outside struct{}

// Outside returns a context for a request from outside of the fork, about a resource. What other requests write is done by the server
// itself and its controllers.
func Outside(ctx context.Context, about string) context.Context {
	return context.WithValue(ctx, outside{}, about)
}

// Asked returns the first write of a key by a request from outside; none: there was none.
func (d *DB) Asked(key string) Asked {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked[key]
}

// New makes a log of what a cut holds. Its first write has the revision after the cut's.
func New(cut *store.Cut, c clock.WithDelayedExecution) *DB {
	d := &DB{DB: memory.NewAt(c, cut.Rev), cut: cut, written: map[string]kv.Op{}, relied: map[string]bool{}, asked: map[string]Asked{}}
	d.Remember = func(key string) bool { _, ok := cut.Get(key); return ok } // otherwise it would be there again
	return d
}

// Cut is part of store.Forked.
func (d *DB) Cut() *store.Cut { return d.cut }

// Touched is part of store.Forked.
func (d *DB) Touched(ctx context.Context, from, end string, yield func(key string, k *kv.KeyValue)) (int64, error) {
	return d.DB.Scan(ctx, kv.Range{Key: from, End: end}, yield)
}

// Commit is part of store.DB.
func (d *DB) Commit(ctx context.Context, t kv.Txn) (kv.Committed, error) {
	for _, c := range t.If {
		d.take(c.Key)
	}
	for _, o := range t.Then {
		d.take(o.Key)
	}
	for _, key := range t.Else {
		d.take(key)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	done, err := d.DB.Commit(ctx, t)
	if done.Held {
		about, asked := ctx.Value(outside{}).(string)
		d.noteLocked(t, about, asked)
	}
	return done, err
}

// noteLocked keeps what a transaction has written. Of several writes of a key the last counts.
func (d *DB) noteLocked(t kv.Txn, about string, asked bool) {
	for _, c := range t.If {
		d.relied[c.Key] = true
	}
	for _, o := range t.Then {
		if before, ok := d.written[o.Key]; ok && o.KeepTTL {
			o.TTL, o.KeepTTL = before.TTL, before.KeepTTL
		}
		d.written[o.Key] = o
		if _, before := d.asked[o.Key]; asked && !before {
			d.asked[o.Key] = Asked{len(d.asked) + 1, about}
		}
	}
}

// Written is part of store.Forked. What was made and deleted since is left out.
func (d *DB) Written() (ops []kv.Op, relied []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(d.written)) {
		o := d.written[key]
		if _, was := d.cut.Get(key); was || !o.Delete {
			ops = append(ops, o)
		}
	}
	return ops, slices.Sorted(maps.Keys(d.relied))
}

// take takes a key of the cut up, as it was.
func (d *DB) take(key string) {
	if k, ok := d.cut.Get(key); ok {
		d.Begin(k)
	}
}

// Range is part of store.DB.
func (d *DB) Range(ctx context.Context, r kv.Range, yield kv.Yield) (kv.Answer, error) {
	if r.End == "" {
		d.take(r.Key)
		return d.DB.Range(ctx, r, yield)
	}
	type known struct {
		key string
		is  *kv.KeyValue
	}
	var own []known
	rev, err := d.Scan(ctx, r, func(key string, k *kv.KeyValue) { own = append(own, known{key, k}) })
	if err != nil {
		return kv.Answer{}, err
	}
	m := merged{r: r, yield: yield, answer: kv.Answer{Rev: rev}}
	d.cut.Ascend(r.Key, func(k kv.KeyValue) bool {
		if key := string(k.Key); r.End != kv.NoEnd && key >= r.End {
			return false
		}
		for len(own) > 0 && own[0].key < string(k.Key) {
			m.pass(own[0].is)
			own = own[1:]
		}
		if len(own) > 0 && own[0].key == string(k.Key) {
			return true // it was taken up
		}
		m.pass(&k)
		return true
	})
	for _, k := range own {
		m.pass(k.is)
	}
	return m.answer, nil
}

// merged is the answer to a Range.
type merged struct {
	r       kv.Range
	yield   kv.Yield
	answer  kv.Answer
	passed  int64
	stopped bool
}

func (m *merged) pass(k *kv.KeyValue) {
	if k == nil {
		return
	}
	m.answer.Count++
	switch {
	case m.r.CountOnly || m.stopped:
	case m.r.Limit > 0 && m.passed == m.r.Limit:
		m.answer.More = true
	default:
		m.passed++
		m.stopped = !m.yield(*k)
	}
}
