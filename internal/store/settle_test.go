package store

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"unsafe"
)

// What a write returns and what the log brings are one item, whichever comes first, and only what its writer calls complete
// is complete.
func TestOneItemOfAWrite(t *testing.T) {
	s := open(t)
	if err := s.Fresh(t.Context()); err != nil { // a view that is loaded before the log is followed is loaded again
		t.Fatal(err)
	}
	v := s.View(things)
	if _, err := v.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for n := range 8 {
		writers.Go(func() {
			key := fmt.Sprintf("a%d", n)
			i, err := v.Create(t.Context(), key, Write{Value: []byte("0"), Complete: true})
			for round := range 50 {
				if err != nil {
					t.Error(err)
					return
				}
				if newest, err := v.Newest(t.Context(), key); err != nil || newest != i {
					t.Errorf("written %p, the newest is %p, %v", i, newest, err)
				}
				same(t, s, v, i, round%2 == 0)
				i, err = v.Update(t.Context(), i, Write{Value: fmt.Append(nil, round), Complete: round%2 == 1})
			}
			gone, err := v.Delete(t.Context(), i)
			if err != nil || gone.Complete() != i.Complete() {
				t.Error(gone, err)
			}
		})
	}
	writers.Wait()
	if err := s.Fresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.own) > 0 {
		t.Errorf("%d items are kept for a log that has passed them", len(v.own))
	}
}

// same checks that the view has the item of a write, once it is fresh.
func same(t *testing.T, s *Store, v *View, written *Item, complete bool) {
	t.Helper()
	if err := s.Fresh(t.Context()); err != nil {
		t.Error(err)
		return
	}
	if i, err := v.Get(t.Context(), written.Key); err != nil || i != written || i.Complete() != complete {
		t.Errorf("%s: written %p, complete %t, read %p, %v", written.Key, written, complete, i, err)
	}
}

// An item does not keep the text that its key was cut out of.
func TestKeyStandsAlone(t *testing.T) {
	body := "a name and much more"
	i, err := open(t).View(things).Create(t.Context(), body[2:6], Write{Value: []byte("0")})
	if err != nil || i.Key != "name" || unsafe.StringData(i.Key) == unsafe.StringData(body[2:6]) {
		t.Errorf("%+v, %v", i, err)
	}
}

// What another server writes is not complete, also in the place of what this one has written.
func TestOthersAreNotComplete(t *testing.T) {
	db := openEmbedded(t, t.TempDir())
	s := run(t, db)
	v := s.View(things)
	if _, err := v.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Create(t.Context(), "a", Write{Value: []byte("1"), Complete: true}); err != nil {
		t.Fatal(err)
	}
	rev := put(t, db, "/registry/things/a", "2")
	if err := s.WaitFor(context.WithoutCancel(t.Context()), rev); err != nil {
		t.Fatal(err)
	}
	if i, err := v.Get(t.Context(), "a"); err != nil || i.Complete() || string(i.Value()) != "2" {
		t.Errorf("%+v, %v", i, err)
	}
}
