package replica

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/past"
)

// statuses are changes of pods' statuses, as kubelets make them.
func statuses(pods, each int) (out []past.Dated) {
	r := rand.New(rand.NewPCG(1, 1))
	last := make([]kv.KeyValue, pods)
	for n := range pods * each {
		pod := n % pods
		var b strings.Builder
		for line := range 120 {
			fmt.Fprintf(&b, "\"field%d\": \"value of pod %d %x\",", line, pod, line*pod*7919)
		}
		fmt.Fprintf(&b, `"at": "2026-01-01T00:00:%02dZ", "ready": %t, "n": %d`, n%60, n%3 == 0, r.Uint32())
		d := past.Dated{Event: kv.Event{KeyValue: kv.KeyValue{Key: fmt.Appendf(nil, "pods/default/web-%d", pod), Value: []byte(b.String()), ModRevision: int64(1000 + n)}, Prev: last[pod]},
			At: time.UnixMilli(1767225600000 + int64(n)), Author: store.Author{User: "system:node:one", Verb: "patch"}}
		if n < pods && pod%2 == 0 || n >= pods && d.Prev.ModRevision == 0 {
			d.CreateRevision = d.ModRevision
		} else if d.Prev.ModRevision == 0 {
			d.Prev = kv.KeyValue{ModRevision: int64(pod + 1), Value: []byte(b.String()[:4000])}
		}
		last[pod] = kv.KeyValue{Value: d.Value, ModRevision: d.ModRevision}
		if pod%10 == 9 && n/pods%2 == 1 {
			d.Deleted, d.Value, last[pod] = true, nil, kv.KeyValue{}
		}
		out = append(out, d)
	}
	return out
}

func TestChunk(t *testing.T) {
	want := statuses(30, 5)
	got, err := decode(encode(want))
	if err != nil || len(got) != len(want) {
		t.Fatal(len(got), err)
	}
	for n := range want {
		if want[n].Prev.Key, got[n].Prev.Key, got[n].Prev.CreateRevision = nil, nil, 0; want[n].Created() {
			want[n].Prev = kv.KeyValue{}
		}
		if !reflect.DeepEqual(got[n], want[n]) {
			t.Fatalf("%d: %.300v, not %.300v", n, got[n], want[n])
		}
	}
}

// FuzzDecode: what a database has may be damaged.
func FuzzDecode(f *testing.F) {
	f.Add(encode(statuses(3, 2)))
	f.Add(encode(nil))
	f.Add([]byte("damaged"))
	f.Fuzz(func(t *testing.T, chunk []byte) {
		changes, err := decode(chunk)
		if err != nil {
			return
		}
		again, err := decode(encode(changes))
		if err != nil || len(again) != len(changes) {
			t.Fatal(err, len(again), len(changes))
		}
	})
}

// BenchmarkEncode makes a chunk of a thousand changes of 5 KB.
func BenchmarkEncode(b *testing.B) {
	changes := statuses(200, 5)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n = len(encode(changes))
	}
	b.ReportMetric(float64(n)/float64(len(changes)), "B/change")
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(changes)), "µs/change")
}

// BenchmarkEncodeFew makes one of ten changes.
func BenchmarkEncodeFew(b *testing.B) {
	changes := statuses(5, 2)
	b.ReportAllocs()
	for b.Loop() {
		encode(changes)
	}
}
