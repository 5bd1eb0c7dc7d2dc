package storetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Shown is a key as texts have it by which databases are compared; it is given nil for one that is not there.
type Shown func(k *kv.KeyValue) string

// Ranged is the answer to a Range as a text.
func (shown Shown) Ranged(t *testing.T, db store.DB, q kv.Range) string {
	t.Helper()
	all := ""
	a, err := db.Range(t.Context(), q, func(k kv.KeyValue) bool { all += shown(&k) + "; "; return true })
	if err != nil {
		t.Fatal(err)
	}
	if a.More {
		a.Count = min(a.Count, q.Limit+1) // no more is promised
	}
	return fmt.Sprintf("%s%+v", all, a)
}

// Watched is what a Watch with an end delivers, as a text. The changes of one revision have no order.
func (shown Shown) Watched(t *testing.T, db store.DB, w kv.Watch) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	byRev := map[int64][]string{}
	if err := db.Watch(ctx, w, func(events []kv.Event, _ int64) error {
		for _, e := range events {
			line := fmt.Sprintf("%s deleted %v created %v", shown(&e.KeyValue), e.Deleted, e.Created())
			if w.Prev {
				line += " was " + shown(&e.Prev)
			}
			byRev[e.ModRevision] = append(byRev[e.ModRevision], line)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, rev := range slices.Sorted(maps.Keys(byRev)) {
		slices.Sort(byRev[rev])
		out = append(out, byRev[rev]...)
	}
	return strings.Join(out, "\n")
}
