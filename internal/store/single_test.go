package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/store/memory"
)

// One object is read without loading all others; whoever goes on reading has them loaded, and waits for nothing.
func TestGetDoesNotLoad(t *testing.T) {
	s := run(t, memory.New(clock.RealClock{}))
	v := s.View(things)
	create(t, v, "ns/a", "1")
	if err := s.Fresh(t.Context()); err != nil { // views are dropped once, when the log begins
		t.Fatal(err)
	}
	isLoaded := func() bool { _, ok := v.Len(); return ok }
	get := func() {
		t.Helper()
		if i, err := v.Get(t.Context(), "ns/a"); err != nil || string(i.Value()) != "1" {
			t.Fatalf("%v, %v", i, err)
		}
		if _, err := v.Get(t.Context(), "ns/none"); !errors.Is(err, ErrNotFound) {
			t.Fatalf("got %v", err)
		}
	}
	for range singleReads / 2 {
		if get(); isLoaded() {
			t.Fatal("the view is loaded for a few objects")
		}
	}
	get()
	for end := time.Now().Add(time.Minute); !isLoaded(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the view is not loaded for many")
		}
	}
	get()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := v.Get(ctx, "ns/a"); err != nil {
		t.Errorf("what is in memory needs no time: %v", err)
	}
	s.Forget(v)
	if _, err := v.Get(t.Context(), "ns/a"); !errors.Is(err, ErrForgotten) {
		t.Errorf("got %v of a view that is dropped", err)
	}
}
