package main

import (
	"strconv"
	"testing"
	"time"
)

// TestSaw finds out events that are missed, doubled or out of order.
func TestSaw(t *testing.T) {
	for name, c := range map[string]struct {
		marks []int
		wrong int
	}{
		"in order": {[]int{1, 2, 3, 4}, 0},
		"missed":   {[]int{1, 3, 4}, 1},
		"doubled":  {[]int{1, 2, 2, 3}, 1},
		"swapped":  {[]int{1, 3, 2, 4}, 3},
		"none":     {[]int{1, 0}, 1},
	} {
		w := &client{}
		ended := time.Now()
		for _, n := range c.marks {
			var o object
			if n > 0 {
				o.Data.Mark = strconv.Itoa(n)
			}
			w.saw(o, &ended)
		}
		if w.wrong != c.wrong || len(w.gaps) != 1 {
			t.Errorf("%s: %d wrong and %d gaps, want %d and 1", name, w.wrong, len(w.gaps), c.wrong)
		}
	}
}
