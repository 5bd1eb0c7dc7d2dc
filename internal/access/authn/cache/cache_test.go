package cache

import "testing"

func TestBoundedAndKeepsWhatIsInUse(t *testing.T) {
	var c Cache[int, int]
	for i := range 10 * size {
		c.Put(i, &i)
		if c.Get(0) == nil {
			t.Fatalf("what is in use was forgotten after %d", i)
		}
	}
	if n := len(c.young) + len(c.old); n > 2*size {
		t.Errorf("%d are remembered", n)
	}
	if c.Get(1) != nil {
		t.Error("nothing is ever forgotten")
	}
}
