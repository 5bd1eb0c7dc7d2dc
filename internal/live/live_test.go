package live

import "testing"

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
