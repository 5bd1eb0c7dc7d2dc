package layer_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/layer"
	"github.com/kanzen-io/kanzen/internal/store/memory"
	"github.com/kanzen-io/kanzen/internal/store/storetest"
)

// keys is a base: keys, of which each is its own value.
type keys []string

func (k keys) Len() int           { return len(k) }
func (k keys) Key(n int) string   { return k[n] }
func (k keys) Value(n int) []byte { return []byte("base of " + k[n]) }

// On a base whose keys nobody asks for it is a log as any other.
func TestSuite(t *testing.T) {
	storetest.RunOver(t, func(beneath store.DB) store.DB { return layer.New(beneath, "/elsewhere/", keys{"a", "b"}) })
}

// TestAsStored asks a log on a base, and one in which the same keys are stored, the same questions.
func TestAsStored(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 40 {
		base := keys(slices.DeleteFunc(slices.Clone(names), func(string) bool { return r.IntN(2) == 0 }))
		below, stored := memory.New(clock.RealClock{}), memory.New(clock.RealClock{})
		c := comparison{r: r, base: base, layered: layer.New(below, "p/", base), stored: stored}
		c.begin(t, below)
		for range 300 {
			c.ask(t)
		}
		_ = below.Close()
		_ = stored.Close()
	}
}

var names = []string{"a", "a/b", "ab", "abc", "b", "b/c", "c", "d"}

// comparison asks both. The base of the stored one has the revision 2, that of the other Since.
type comparison struct {
	r               *rand.Rand
	base            keys
	layered, stored store.DB
	rev             int64
}

const storedAt = 2

func (c *comparison) begin(t *testing.T, below store.DB) {
	then := []kv.Op{{Key: "other", Value: []byte("x")}}
	if _, err := below.Commit(t.Context(), kv.Txn{Then: then}); err != nil {
		t.Fatal(err)
	}
	for n := range c.base {
		then = append(then, kv.Op{Key: "p/" + c.base.Key(n), Value: c.base.Value(n)})
	}
	done, err := c.stored.Commit(t.Context(), kv.Txn{Then: then})
	if err != nil || done.Rev != storedAt {
		t.Fatal(done, err)
	}
	c.rev = done.Rev
}

func (c *comparison) key() string { return "p/" + names[c.r.IntN(len(names))] }

func (c *comparison) ask(t *testing.T) {
	switch c.r.IntN(5) {
	case 0, 1, 2:
		c.commit(t)
	case 3:
		q := kv.Range{Key: c.key(), Limit: int64(c.r.IntN(4)), CountOnly: c.r.IntN(5) == 0}
		switch c.r.IntN(5) {
		case 0:
			q.End = kv.NoEnd
		case 1:
			q.End = c.key()
		case 2:
			q.End = kv.PrefixEnd(q.Key)
		case 3:
			q.End = kv.After([]byte(c.key()))
		}
		if c.r.IntN(3) == 0 {
			q.Key = kv.After([]byte(q.Key))
		}
		if c.r.IntN(2) == 0 {
			q.Rev = max(storedAt, c.rev-c.r.Int64N(20))
		}
		if q.End != "" && q.End != kv.NoEnd && q.End <= q.Key {
			return // not a range
		}
		same(t, fmt.Sprintf("%+v", q), storetest.Shown(shown).Ranged(t, c.layered, q), storetest.Shown(shown).Ranged(t, c.stored, q))
	case 4:
		w := kv.Watch{Key: c.key(), Prefix: c.r.IntN(2) == 0, From: max(storedAt+1, c.rev-c.r.Int64N(20)), Until: c.rev, Prev: c.r.IntN(2) == 0}
		if w.From <= w.Until {
			same(t, fmt.Sprintf("%+v", w), storetest.Shown(shown).Watched(t, c.layered, w), storetest.Shown(shown).Watched(t, c.stored, w))
		}
	}
}

func (c *comparison) commit(t *testing.T) {
	txn := map[string]kv.Op{}
	for range 1 + c.r.IntN(3) {
		o := kv.Op{Key: c.key(), Delete: c.r.IntN(3) == 0}
		if !o.Delete {
			o.Value = fmt.Append(nil, c.r.IntN(100))
		}
		txn[o.Key] = o
	}
	own := kv.Txn{ElseKeys: c.r.IntN(3) == 0}
	for _, k := range slices.Sorted(maps.Keys(txn)) {
		own.Then = append(own.Then, txn[k])
	}
	other := kv.Txn{Then: own.Then, ElseKeys: own.ElseKeys}
	for range c.r.IntN(3) {
		condition := kv.Condition{Key: c.key(), Is: kv.ModRevision}
		at := c.now(t, condition.Key)
		switch c.r.IntN(6) {
		case 0, 1, 2, 3:
			condition.N = at
		case 4:
			condition.N = 0
		case 5:
			condition.Is, condition.N = kv.ModRevisionAtMost, max(0, at-c.r.Int64N(2))
			if condition.N == 1 {
				condition.N = storedAt // there is no such revision in the stored one
			}
		}
		other.If = append(other.If, condition)
		if condition.N == storedAt {
			condition.N = layer.Since
			if condition.Is == kv.ModRevisionAtMost {
				condition.N = storedAt
			}
		}
		own.If = append(own.If, condition)
		own.Else, other.Else = append(own.Else, condition.Key), append(other.Else, condition.Key)
	}
	text := func(db store.DB, txn kv.Txn) string {
		done, err := db.Commit(t.Context(), txn)
		if err != nil {
			t.Fatal(err)
		}
		c.rev = done.Rev
		out := fmt.Sprint(done.Held, done.Rev)
		for _, k := range done.Else {
			out += "; " + shown(k)
		}
		return out
	}
	same(t, fmt.Sprintf("%+v", other), text(c.layered, own), text(c.stored, other))
}

// now is the revision of a key in the stored one.
func (c *comparison) now(t *testing.T, key string) (rev int64) {
	if _, err := c.stored.Range(t.Context(), kv.Range{Key: key}, func(k kv.KeyValue) bool { rev = k.ModRevision; return true }); err != nil {
		t.Fatal(err)
	}
	return rev
}

func same(t *testing.T, question, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("%s\ngot:  %s\nwant: %s", question, got, want)
	}
}

// shown is a key as both have it: of how often it was changed only whether it was, since a base is not asked for.
func shown(k *kv.KeyValue) string {
	if k == nil {
		return "none"
	}
	mod := k.ModRevision
	if mod == layer.Since {
		mod = storedAt
	}
	return fmt.Sprintf("%s=%s@%d", k.Key, k.Value, mod)
}
