package live

import (
	"context"
	"errors"
	"testing"
)

// A value is derived on request, and again only after a change.
func TestValue(t *testing.T) {
	changes, made := int64(7), 0
	v := New(func() int64 { return changes }, func() int { made++; return made })
	if made != 0 {
		t.Error("made before it was asked for")
	}
	for _, want := range []int{1, 1} {
		if got := v.Get(); got != want {
			t.Errorf("got %d, want %d", got, want)
		}
	}
	changes += 1000
	if got := v.Get(); got != 2 || made != 2 {
		t.Errorf("after a thousand changes: got %d, made %d times", got, made)
	}
}

// A derived value is derived again only after an object has changed, and gets
// the value before; an error is not kept.
func TestDerived(t *testing.T) {
	revision, made := int64(1), 0
	var fail error
	d := &Derived[int64, []int]{
		Revision: func(context.Context) (int64, error) { return revision, fail },
		Make: func(_ context.Context, was []int) ([]int, error) {
			made++
			if revision == 3 {
				return nil, errors.New("cannot be made")
			}
			return append(was, made), nil
		},
	}
	get := func(want int) {
		t.Helper()
		if got, err := d.Get(t.Context()); err != nil || len(got) != want {
			t.Errorf("got %v, %v; want %d of them", got, err, want)
		}
	}
	get(1)
	get(1)
	revision = 2
	get(2)
	revision = 3
	if _, err := d.Get(t.Context()); err == nil {
		t.Error("no error")
	}
	revision = 2
	get(2)
	fail = errors.New("the revision cannot be read")
	if _, err := d.Get(t.Context()); !errors.Is(err, fail) {
		t.Errorf("got %v", err)
	}
	if made != 3 {
		t.Errorf("made %d times", made)
	}
}
