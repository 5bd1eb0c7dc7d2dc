package store

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestReplaceComparesAndKeepsTheLease replaces a value of which another writer has made a new one, and one that expires.
func TestReplaceComparesAndKeepsTheLease(t *testing.T) {
	t.Parallel()
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := run(t, open(t))
			v := s.View(things)
			first := create(t, v, "a", "1")
			second := update(t, v, first, "2")
			if done, err := s.Replace(t.Context(), "things/a", first.Rev, []byte("lost")); done || err != nil {
				t.Errorf("replacing what is no longer there: %v, %v", done, err)
			}
			if done, err := s.Replace(t.Context(), "things/a", second.Rev, []byte("3")); !done || err != nil {
				t.Errorf("replacing what is there: %v, %v", done, err)
			}
			if i, err := v.Latest(t.Context(), "a"); err != nil || string(i.Value()) != "3" {
				t.Errorf("%v, %v", i, err)
			}
			if done, err := s.Replace(t.Context(), "things/none", second.Rev, nil); done || err != nil {
				t.Errorf("a key that does not exist is made: %v, %v", done, err)
			}
			short, err := v.Create(t.Context(), "b", Write{Value: []byte("x"), TTL: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			if done, err := s.Replace(t.Context(), "things/b", short.Rev, []byte("y")); !done || err != nil {
				t.Fatal(done, err)
			}
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
				if _, err := v.Latest(t.Context(), "b"); errors.Is(err, ErrNotFound) {
					break
				} else if err != nil || time.Now().After(deadline) {
					t.Fatalf("a value lost its lease: %v", err)
				}
			}
		})
	}
}

// TestStoredHistory reads what can still be asked for, before and after a compaction.
func TestStoredHistory(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			s := run(t, open(t))
			v := s.View(things)
			i := create(t, v, "a", "1")
			b := create(t, v, "b", "1")
			for n := range 3 {
				i = update(t, v, i, fmt.Sprint(n+2))
			}
			if _, err := v.Delete(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			if n, err := s.Count(t.Context()); n != 1 || err != nil {
				t.Errorf("%d values, %v", n, err)
			}
			told := func() (out []string) {
				_, newest, err := s.StoredHistory(t.Context(), func(v Stored) { out = append(out, v.Key+"="+string(v.Bytes)) })
				if err != nil || newest <= i.Rev {
					t.Errorf("up to %d, %v", newest, err)
				}
				return out
			}
			if got, want := told(), []string{"things/a=1", "things/b=1", "things/a=2", "things/a=3", "things/a=4"}; !slices.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
			if err := s.db.Compact(t.Context(), i.Rev); err != nil {
				t.Fatal(err)
			}
			if got, want := told(), []string{"things/a=4", "things/b=1"}; !slices.Equal(got, want) {
				t.Errorf("after a compaction: %v, want %v", got, want)
			}
		})
	}
}

// TestStoredPages reads more values than there are in a page, as of an old revision.
func TestStoredPages(t *testing.T) {
	s := run(t, openers["memory"](t))
	for n := range 2*storedPage + 1 {
		put(t, s.db, s.prefix+fmt.Sprintf("things/%05d", n), "x")
	}
	head, err := s.db.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	put(t, s.db, s.prefix+"things/later", "x")
	var keys []string
	at, err := s.Stored(t.Context(), head, func(v Stored) bool { keys = append(keys, v.Key); return true })
	if err != nil || at != head || len(keys) != 2*storedPage+1 || !slices.IsSorted(keys) {
		t.Errorf("%d keys at %d, %v", len(keys), at, err)
	}
	n := 0
	if _, err := s.Stored(t.Context(), 0, func(Stored) bool { n++; return n < 3 }); err != nil || n != 3 {
		t.Errorf("%d keys, %v", n, err)
	}
}
