package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/store/memory"
)

type testForm struct{}

// indexOf is the values of a view as texts; "bad" cannot be decoded.
func indexOf(v *View) *Index[*string] {
	return NewIndex(v, testForm{}, func(_ context.Context, i *Item) (*string, error) {
		s := string(i.Value())
		if s == "bad" {
			return nil, errors.New("bad")
		}
		return &s, nil
	})
}

// An object is decoded once for its revision, and all readers share it.
func TestIndexDecodesOnce(t *testing.T) {
	s := run(t, memory.New(clock.RealClock{}))
	v := s.View(things)
	var decoded atomic.Int64
	x := NewIndex(v, testForm{}, func(_ context.Context, i *Item) (*string, error) {
		decoded.Add(1)
		s := string(i.Value())
		return &s, nil
	})
	create(t, v, "ns/a", "1")
	create(t, v, "other/b", "1")
	if err := s.Fresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	first, err := x.Get(t.Context(), "ns/a")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		again, err := x.Objects(t.Context(), "ns/")
		if err != nil || len(again) != 1 || again[0] != first {
			t.Fatalf("%v, %v; want the same object", again, err)
		}
	}
	if n := decoded.Load(); n != 1 {
		t.Errorf("decoded %d times", n)
	}
	if _, err := x.Get(t.Context(), "ns/none"); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
	// Another type for the same form is an error, not a wrong value.
	other := NewIndex(v, testForm{}, func(context.Context, *Item) (*int, error) { return new(int), nil })
	if _, err := other.Get(t.Context(), "ns/a"); err == nil {
		t.Error("a *string passes as a *int")
	}
}

// A follower is told of all objects, of each change with the object before it,
// and, when history was lost, of objects that were deleted meanwhile.
func TestIndexFollow(t *testing.T) {
	db := memory.New(clock.RealClock{})
	s := run(t, db)
	v := s.View(things)
	a, b := create(t, v, "ns/a", "1"), create(t, v, "ns/b", "bad")
	told, caught := make(chan string, 100), make(chan int64, 100)
	text := func(c Change[*string]) string {
		was, had := c.Was(t.Context())
		switch {
		case c.Gone && had:
			return "-" + c.Name() + " was " + *was
		case c.Gone:
			return "-" + c.Name()
		case c.Err != nil:
			return c.Name() + " " + c.Err.Error()
		case had:
			return c.Name() + "=" + *c.Now + " was " + *was
		}
		return fmt.Sprintf("%s=%s added %v", c.Name(), *c.Now, c.Added())
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		indexOf(v).Follow(ctx, func(c Change[*string]) { told <- text(c) }, func(rev int64) { caught <- rev })
	}()
	expect := func(want ...string) {
		t.Helper()
		for _, w := range want {
			if got := <-told; got != w {
				t.Fatalf("told %q, want %q", got, w)
			}
		}
	}
	expect("a=1 added true", "b bad")
	rev := <-caught
	update(t, v, a, "2")
	expect("a=2 was 1")
	if next := <-caught; next <= rev {
		t.Errorf("caught %d after %d", next, rev)
	}
	b = update(t, v, b, "3")
	expect("b=3 added false")
	remove(t, v, b)
	expect("-b was 3")
	cancel()
	<-done
}

// A follower that begins anew, because history was lost or it panicked, is told of
// all objects and of those that were deleted meanwhile.
func TestIndexBeginsAnew(t *testing.T) {
	s := run(t, memory.New(clock.RealClock{}))
	v := s.View(things)
	create(t, v, "a", "1")
	b := create(t, v, "b", "1")
	var told []string
	f := &following[*string]{index: indexOf(v), known: map[string]*Item{}, caught: func(int64) {}, each: func(c Change[*string]) {
		_, had := c.Was(t.Context())
		told = append(told, fmt.Sprintf("%s gone=%v had=%v", c.Key, c.Gone, had))
	}}
	begin := func(want ...string) {
		t.Helper()
		told = nil
		if err := s.Fresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := f.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	}
	begin("a gone=false had=false", "b gone=false had=false")
	remove(t, v, b)
	create(t, v, "c", "1")
	begin("a gone=false had=true", "c gone=false had=false", "b gone=true had=true")
}

// Many objects are decoded in parallel, and reported in the order of their keys.
func TestIndexFollowsMany(t *testing.T) {
	db := memory.New(clock.RealClock{})
	s := run(t, db)
	v := s.View(things)
	var want []string
	for n := range 3*together/2 + 1 {
		key := fmt.Sprintf("k%05d", n)
		put(t, db, "/registry/things/"+key, "1")
		want = append(want, key)
	}
	var got []string
	ctx, cancel := context.WithCancel(t.Context())
	indexOf(v).Follow(ctx, func(c Change[*string]) { got = append(got, c.Key) }, func(int64) { cancel() })
	if !slices.Equal(got, want) {
		t.Errorf("told of %d keys, want %d in order", len(got), len(want))
	}
}

// Who has joined has a goroutine only while there is something to tell, and is told when it has ended: with its context, or with the view.
func TestIndexJoin(t *testing.T) {
	s := run(t, memory.New(clock.RealClock{}))
	v := s.View(things)
	i := create(t, v, "ns/a", "1")
	told, ended := make(chan string), make(chan struct{}, 1)
	join := func(ctx context.Context) {
		indexOf(v).Join(ctx, func() { ended <- struct{}{} }, func(c Change[*string]) { told <- *c.Now }, nil)
	}
	ctx, cancel := context.WithCancel(t.Context())
	join(ctx)
	if got := <-told; got != "1" {
		t.Errorf("told %q", got)
	}
	for working(t) { // it is about to find that there is no more
		runtime.Gosched()
	}
	update(t, v, i, "2")
	if got := <-told; got != "2" {
		t.Errorf("told %q after a change", got)
	}
	cancel()
	<-ended
	join(t.Context())
	<-told
	s.Forget(v)
	<-ended
	for working(t) {
		runtime.Gosched()
	}
}

// working reports whether a goroutine follows a view.
func working(t *testing.T) bool {
	t.Helper()
	var stacks bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&stacks, 1); err != nil {
		t.Fatal(err)
	}
	return strings.Contains(stacks.String(), "(*followed).work")
}
