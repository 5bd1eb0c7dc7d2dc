package pebble_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/etcd"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/pebble"
)

// BenchmarkCommit updates objects of 500 bytes, as a server does: if the revision is the one that was read. It waits for the disk. What is
// beside is the embedded etcd.
func BenchmarkCommit(b *testing.B) {
	for _, clients := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("pebble/%d", clients), func(b *testing.B) {
			db, err := pebble.Open(pebble.Config{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			benchmarkCommit(b, db, clients)
		})
		b.Run(fmt.Sprintf("etcd/%d", clients), func(b *testing.B) {
			db, err := etcd.OpenEmbedded(b.Context(), etcd.Embedded{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			benchmarkCommit(b, db, clients)
		})
	}
}

func benchmarkCommit(b *testing.B, db store.DB, clients int) {
	value := make([]byte, 500)
	var client atomic.Int64
	b.SetParallelism(max(1, clients/2))
	if clients == 1 {
		b.SetParallelism(1)
	}
	b.ReportAllocs()
	b.ResetTimer()
	work := func(next func() bool) {
		me := client.Add(1)
		var revs [16]int64
		for n := 0; next(); n++ {
			at := n % len(revs)
			key := fmt.Sprintf("/registry/pods/default/pod-%d-%d", me, at)
			done, err := db.Commit(b.Context(), kv.Txn{If: []kv.Condition{{Key: key, N: revs[at]}}, Then: []kv.Op{{Key: key, Value: value}}})
			if err != nil || !done.Held {
				b.Errorf("%+v, %v", done, err)
				return
			}
			revs[at] = done.Rev
		}
	}
	if clients == 1 {
		work(b.Loop)
		return
	}
	b.RunParallel(func(p *testing.PB) { work(p.Next) })
}
