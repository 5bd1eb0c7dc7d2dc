package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/memory"
)

// walks counts the keys that etcd looks at for pages: all that are left, for each.
type walks struct {
	DB
	pages, walked, laterLargest int64 // the size of the first page is not chosen by what came before
}

func (w *walks) Range(ctx context.Context, r kv.Range, yield kv.Yield) (kv.Answer, error) {
	var n int64
	a, err := w.DB.Range(ctx, r, func(k kv.KeyValue) bool { n++; return yield(k) })
	if a.More { // etcd counts the rest as well
		all, failed := w.DB.Range(ctx, kv.Range{Key: r.Key, End: r.End, Rev: r.Rev, CountOnly: true}, nil)
		a.Count, err = all.Count, errors.Join(err, failed)
	}
	if w.pages > 0 {
		w.laterLargest = max(w.laterLargest, n)
	}
	w.pages, w.walked = w.pages+1, w.walked+a.Count
	return a, err
}

// All keys come once, in order, and etcd does not walk over them more than a few times.
func TestAllKeys(t *testing.T) {
	for _, c := range []struct{ keys, size, most int }{
		{0, 1, 1}, {1, 1, 1}, {firstPage, 1, 1}, {firstPage + 1, 1, 2}, {50_000, 1, 20}, {9_000, 64 << 10, 9}, {4_000, 128 << 10, 6},
	} {
		db := memory.New(clock.RealClock{})
		value := []byte(strings.Repeat("v", c.size))
		for n := range c.keys {
			if _, err := db.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: fmt.Sprintf("/a/%06d", n), Value: value}}}); err != nil {
				t.Fatal(err)
			}
		}
		w := &walks{DB: db}
		s := &Store{db: w}
		var got []string
		asked := int64(0)
		rev, err := s.all(t.Context(), "/a/", func(time.Time, error) { asked++ }, func(k kv.KeyValue) bool { got = append(got, string(k.Key)); return true })
		if err != nil || len(got) != c.keys || !slices.IsSorted(got) || asked != w.pages {
			t.Errorf("%d keys: got %d, sorted %t, at %d, of %d requests %d told, %v", c.keys, len(got), slices.IsSorted(got), rev, w.pages, asked, err)
		}
		if w.pages > int64(c.most) || w.walked > 8*int64(c.keys)+1 || w.laterLargest > bulkBytes/int64(c.size) {
			t.Errorf("%d keys of %d bytes: %d pages, after the first at most of %d, %d keys walked", c.keys, c.size, w.pages, w.laterLargest, w.walked)
		}
	}
}
