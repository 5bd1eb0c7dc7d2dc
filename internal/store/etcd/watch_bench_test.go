package etcd_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/kanzen-io/kanzen/internal/store/etcd"
	"github.com/kanzen-io/kanzen/internal/store/etcd/etcdtest"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// BenchmarkWatches reports what a watch takes, of an etcd in this process, and of one behind sockets. There the server is in this process
// too, with what it has for each stream.
func BenchmarkWatches(b *testing.B) {
	b.Run("embedded", func(b *testing.B) {
		db, err := etcd.OpenEmbedded(b.Context(), etcd.Embedded{Dir: b.TempDir(), UnsafeNoFsync: true, AnyDisk: true})
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		benchmarkWatches(b, db)
	})
	b.Run("remote", func(b *testing.B) {
		db := etcdtest.Start(b, false).Dial()
		defer func() { _ = db.Close() }()
		benchmarkWatches(b, db)
	})
}

func benchmarkWatches(b *testing.B, db *etcd.DB) {
	held := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc+m.StackInuse) / 1024
	}
	const watches = 500
	for b.Loop() {
		before, goroutines := held(), runtime.NumGoroutine()
		first := put(b, db, "0/first")
		var all []*watching
		for n := range watches {
			all = append(all, watch(b, db, kv.Watch{Key: fmt.Sprint(n, "/"), Prefix: true, From: first + 1}))
		}
		for n, g := range all {
			g.hears(b, put(b, db, fmt.Sprint(n, "/a")))
		}
		b.ReportMetric((held()-before)/watches, "KiB/watch")
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/watches, "goroutines/watch")
		for _, g := range all {
			g.stop()
			<-g.ended
		}
	}
}
