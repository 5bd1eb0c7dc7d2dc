package flowcontrol

import (
	"testing"
	"time"
)

// TestPace has two servers that do not agree on a condition: each of them answers every write of the other at once. They write a few
// times a minute each, and the schema that nobody fights over is written at once.
func TestPace(t *testing.T) {
	var ours, theirs pace
	writes, now := 0, time.Unix(1700000000, 0)
	for range 2 * 60 * 10 { // two minutes
		for _, p := range []*pace{&ours, &theirs} {
			if p.allow("fought over", now) {
				writes++
			}
		}
		now = now.Add(100 * time.Millisecond)
	}
	if writes != 2*2*writesPerMinute {
		t.Errorf("%d writes within two minutes", writes)
	}
	if !ours.allow("other", now) || !ours.held(now) {
		t.Error("another schema is held up, or nothing is")
	}
	if now = now.Add(2 * time.Minute); ours.held(now) || !ours.allow("fought over", now) {
		t.Error("what was fought over is held up for ever")
	}
	ours.forget("fought over")
	if len(ours.wrote) != 1 {
		t.Errorf("%d schemas are remembered", len(ours.wrote))
	}
}
