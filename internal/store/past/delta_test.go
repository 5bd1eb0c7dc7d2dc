package past

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestDelta(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var p places
	for range 20000 {
		base := text(r, r.IntN(2000))
		value := edited(r, base)
		delta, _ := appendDelta(nil, base, value, 1<<30, &p)
		got, err := applyDelta(base, delta)
		if err != nil || !bytes.Equal(got, value) {
			t.Fatalf("%q made of %q is %q, %v", value, base, got, err)
		}
	}
}

// TestDeltaIsSmall asks what a change of a few words in a large value costs.
func TestDeltaIsSmall(t *testing.T) {
	var p places
	base := []byte(strings.Repeat("x", 10))
	for n := range 200 {
		base = fmt.Appendf(base, `{"type":"Condition%d","lastTransitionTime":"2026-01-%02dT%02d:%02d:%02dZ","message":"%x"}`, n, n%31, n%23, n%59, n%60, n*n*7919)
	}
	value := bytes.Replace(base, []byte("Condition7\""), []byte("Other\""), 1)
	value = bytes.Replace(value, []byte("Condition100"), []byte("Condition100000"), 1)
	value = bytes.Replace(value, []byte("Condition150"), nil, 1)
	delta, ok := appendDelta(nil, base, value, 200, &p)
	if !ok {
		t.Errorf("three small changes of %d bytes need %d", len(base), len(delta))
	}
}

func text(r *rand.Rand, n int) []byte {
	words := strings.Fields("the quick brown fox jumps over lazy dogs status conditions lastTransitionTime")
	var b []byte
	for len(b) < n {
		b = append(b, words[r.IntN(len(words))]...)
		b = append(b, byte(r.IntN(256)))
	}
	return b[:n]
}

// edited returns a value with pieces that were put in, taken out, moved and changed.
func edited(r *rand.Rand, base []byte) []byte {
	value := bytes.Clone(base)
	for range r.IntN(5) {
		at := r.IntN(len(value) + 1)
		end := at + r.IntN(min(len(value)-at, 300)+1)
		switch r.IntN(4) {
		case 0:
			value = append(value[:at:at], value[end:]...)
		case 1:
			value = append(value[:at:at], append(text(r, r.IntN(200)), value[at:]...)...)
		case 2:
			value = append(bytes.Clone(value[at:end]), append(value[:at:at], value[end:]...)...)
		case 3:
			copy(value[at:end], text(r, end-at))
		}
	}
	return value
}

func FuzzApplyDelta(f *testing.F) {
	f.Add([]byte("base"), []byte{4, 8, 'a', 'b', 'c', 'd'})
	f.Add([]byte("base"), []byte{4, 9, 0})
	f.Fuzz(func(t *testing.T, base, delta []byte) {
		value, err := applyDelta(base, delta)
		if err == nil && len(value) > maxValue {
			t.Error("larger than is allowed")
		}
	})
}

func BenchmarkDelta(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	base := text(r, 5000)
	value := bytes.Clone(base)
	for _, at := range []int{500, 2500, 4000} {
		copy(value[at:], "2026-01-02T03:04:05Z")
	}
	var p places
	b.ReportAllocs()
	var to []byte
	for b.Loop() {
		to, _ = appendDelta(to[:0], base, value, 1<<20, &p)
	}
	b.ReportMetric(float64(len(to)), "B/delta")
}
