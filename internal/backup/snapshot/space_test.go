package snapshot_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/internal/api/builtin"
	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/etcd"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/pebble"
)

// database is one with records.
type database interface {
	store.DB
	kv.Recorded
	Snapshot(ctx context.Context) (io.ReadCloser, error)
	Close() error
}

// eachEngine runs a test on a database of each engine.
func eachEngine(t *testing.T, f func(t *testing.T, db database)) {
	for name, open := range map[string]func(dir string) (database, error){
		"etcd": func(dir string) (database, error) {
			return etcd.OpenEmbedded(t.Context(), etcd.Embedded{Dir: dir, UnsafeNoFsync: true})
		},
		"pebble": func(dir string) (database, error) { return pebble.Open(pebble.Config{Dir: dir, UnsafeNoFsync: true}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, err := open(filepath.Join(t.TempDir(), name))
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			}()
			f(t, db)
		})
	}
}

func commit(t *testing.T, db store.DB, ops ...kv.Op) int64 {
	t.Helper()
	c, err := db.Commit(context.Background(), kv.Txn{Then: ops})
	if err != nil {
		t.Fatal(err)
	}
	return c.Rev
}

// TestRecords compares the records of a database with what it says of each revision.
func TestRecords(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, db database) {
		seed := time.Now().UnixNano()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		for n := range 3000 {
			o := kv.Op{Key: fmt.Sprintf("/registry/configmaps/default/%d", r.IntN(300)), Value: fmt.Append(nil, n)}
			if o.Delete = r.IntN(5) == 0; o.Delete {
				o.Value = nil
			}
			commit(t, db, o, kv.Op{Key: fmt.Sprintf("/registry/secrets/default/%d", r.IntN(50)), Value: []byte("x"), TTL: time.Duration(r.IntN(2)) * time.Hour})
			if n == 1000 {
				if err := db.Compact(t.Context(), 700); err != nil {
					t.Fatal(err)
				}
			}
		}
		at := map[int64]map[string]kv.Record{} // by revision
		var newest []string
		var extent kv.Extent
		begin := func(e kv.Extent) error { extent = e; return nil }
		err := db.Records(t.Context(), kv.Reading{Begin: begin}, func(r *kv.Record) error {
			if at[r.ModRevision] == nil {
				at[r.ModRevision] = map[string]kv.Record{}
			}
			kept := *r
			kept.Value = bytes.Clone(r.Value)
			at[r.ModRevision][string(r.Key)] = kept
			if r.Newest && !r.Deleted {
				newest = append(newest, string(r.Key))
			}
			return nil
		})
		if err != nil || extent.Compacted != 700 {
			t.Fatalf("%+v, %v", extent, err)
		}
		slices.Sort(newest)
		var want []string
		answer, err := db.Range(t.Context(), kv.Range{Key: "/", End: "0"}, func(k kv.KeyValue) bool {
			want = append(want, string(k.Key))
			r, ok := at[k.ModRevision][string(k.Key)]
			if !ok || string(r.Value) != string(k.Value) || r.CreateRevision != k.CreateRevision || r.Version != k.Version || !r.Newest {
				t.Errorf("%s at %d: %+v", k.Key, k.ModRevision, r)
			}
			return true
		})
		if err != nil || extent.Head != answer.Rev || !slices.Equal(newest, want) {
			t.Errorf("%d keys at %d, want %d at %d; %v", len(newest), extent.Head, len(want), answer.Rev, err)
		}
		err = db.Watch(t.Context(), kv.Watch{Key: "/", Prefix: true, From: 701, Until: extent.Head}, func(events []kv.Event, _ int64) error {
			for _, e := range events {
				if r, ok := at[e.ModRevision][string(e.Key)]; !ok || r.Deleted != e.Deleted || string(r.Value) != string(e.Value) {
					t.Errorf("%s at %d: %+v", e.Key, e.ModRevision, r)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// TestSpace compares what is said of the space with what was written, and with the size of the files.
func TestSpace(t *testing.T) {
	t.Parallel()
	kinds := snapshot.NewKinds("/registry", builtin.Resources(builtin.Deps{}), nil)
	eachEngine(t, func(t *testing.T, db database) {
		value := make([]byte, 20_000)
		random := rand.NewChaCha8([32]byte{1}) // so that compression changes nothing
		put := func(key string, bytes int) {
			_, _ = random.Read(value[:bytes])
			commit(t, db, kv.Op{Key: key, Value: slices.Clone(value[:bytes])})
		}
		for n := range 1000 {
			put(fmt.Sprintf("/registry/configmaps/ns%d/c%d", n%4, n), 10_000)
			put(fmt.Sprintf("/registry/pods/ns%d/p%d", n%4, n), 2000)
		}
		for range 3 {
			for n := range 500 {
				put(fmt.Sprintf("/registry/pods/ns1/p%d", n*4+1), 2000)
			}
		}
		for n := range 100 {
			commit(t, db, kv.Op{Key: fmt.Sprintf("/registry/configmaps/ns0/c%d", n*4), Delete: true})
		}
		put("/registry/configmaps/ns2/c2", 20_000)
		put("/registry/example.com/widgets/w", 500)
		put("/registry/ranges/serviceips", 50)
		put("/kanzen/planes/1234/registry/pods/a/b", 700)
		put("/kanzen/planes/5678/registry/pods/a/b", 600)
		put("/kanzen/keys/one", 100)
		commit(t, db, kv.Op{Key: "/registry/planes.kanzen.io/planes/try", Value: []byte(`{"metadata":{"name":"try","uid":"1234"}}`)})
		commit(t, db, kv.Op{Key: "/registry/secrets/ns0/s", Value: []byte("k8s:enc:aesgcm:v1:one:abc")})
		commit(t, db, kv.Op{Key: "compact_rev_key", Value: []byte("1")})

		s, err := kinds.Space(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		by := map[string]snapshot.Amount{}
		for _, a := range slices.Concat(s.Resources, s.Namespaces, s.Planes, s.Outside) {
			by[a.Name] = a
		}
		for name, want := range map[string]snapshot.Amount{
			"configmaps": {Objects: 900, OldRecords: 201}, "pods": {Objects: 1250, OldRecords: 1250}, "secrets": {Objects: 1}, "ns1": {}, "widgets.example.com": {Objects: 1},
			"try": {Objects: 1}, "5678": {Objects: 1}, "/kanzen/keys/": {Objects: 1}, "(no path)": {Objects: 1},
		} {
			if got, ok := by[name]; !ok || want.Objects != 0 && (got.Objects != want.Objects || got.OldRecords != want.OldRecords) {
				t.Errorf("%s: %+v, want %+v", name, got, want)
			}
		}
		if s.Other.Objects != 1 || by["secrets"].Encryption["aesgcm"] != 1 {
			t.Errorf("other keys %+v, secrets %+v", s.Other, by["secrets"])
		}
		if l := s.Largest; len(l) != 50 || l[0].Namespace != "ns2" || l[0].Name != "c2" || l[0].Bytes < 20_000 || l[1].Bytes < l[49].Bytes {
			t.Errorf("the largest are %+v", l)
		}
		var sum snapshot.Amount
		for _, a := range slices.Concat(s.Resources, s.Planes, s.Outside, []snapshot.Amount{s.Other}) {
			sum.Objects, sum.Bytes, sum.OldRecords, sum.OldBytes = sum.Objects+a.Objects, sum.Bytes+a.Bytes, sum.OldRecords+a.OldRecords, sum.OldBytes+a.OldBytes
		}
		if a := s.Records; sum.Objects != a.Objects || sum.Bytes != a.Bytes || sum.OldRecords != a.OldRecords || sum.OldBytes != a.OldBytes || a.Objects != s.Keys {
			t.Errorf("the parts have %+v, all is %+v of %d keys", sum, a, s.Keys)
		}

		saved := save(t, db)
		i, err := kinds.Inspect(t.Context(), saved)
		if err != nil || i.Records.Objects != s.Records.Objects || i.Records.OldRecords != s.Records.OldRecords || i.Revision != s.Revision {
			t.Errorf("the snapshot has %+v, the database %+v; %v", i, s.Records, err)
		}
		// A file of etcd has whole pages, and a value that is larger than one has pages of its own.
		all := i.Records.Bytes + i.Records.OldBytes
		if used := i.Disk.Bytes - i.Disk.Free; all < used/2 || all > used {
			t.Errorf("the snapshot's records take %d bytes, the file %+v", all, i.Disk)
		}

		disk, err := snapshot.DiskOf(t.Context(), db)
		if used := disk.Bytes - disk.Free; err != nil || all > used+used/5 || all < used/4 { // pebble compresses keys, and keeps its log besides
			t.Errorf("records take %d bytes, the database %+v, %v", all, disk, err)
		}

		if err := db.Compact(t.Context(), s.Revision); err != nil {
			t.Fatal(err)
		}
		for after := s; ; {
			if after, err = kinds.Space(t.Context(), db); err != nil {
				t.Fatal(err)
			}
			if a := after.Records; a.OldRecords == 0 {
				if a.Objects != s.Records.Objects || a.Bytes != s.Records.Bytes || after.Compacted != s.Revision {
					t.Errorf("after the compaction there is %+v, before %+v", a, s.Records)
				}
				break
			}
			if t.Context().Err() != nil {
				t.Fatal("the compaction did not drop what it was said to drop")
			}
			runtime.Gosched() // etcd compacts in the background
		}
	})
}

// save saves a snapshot to a file.
func save(t *testing.T, db database) string {
	t.Helper()
	stream, err := db.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	path := filepath.Join(t.TempDir(), "saved.db")
	if err := snapshot.Save(t.Context(), stream, path, nil); err != nil {
		t.Fatal(err)
	}
	return path
}

var spaceKeys = flag.Int("spacekeys", 20_000, "how many keys BenchmarkSpace has")

// BenchmarkSpace looks at many keys of a kilobyte.
func BenchmarkSpace(b *testing.B) {
	keys := *spaceKeys
	kinds := snapshot.NewKinds("/registry", builtin.Resources(builtin.Deps{}), nil)
	for name, open := range map[string]func(dir string) (database, error){
		"etcd": func(dir string) (database, error) {
			return etcd.OpenEmbedded(context.Background(), etcd.Embedded{Dir: dir, UnsafeNoFsync: true, QuotaBytes: 8 << 30})
		},
		"pebble": func(dir string) (database, error) { return pebble.Open(pebble.Config{Dir: dir, UnsafeNoFsync: true}) },
	} {
		b.Run(name, func(b *testing.B) {
			db, err := open(filepath.Join(b.TempDir(), name))
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			value := make([]byte, 1000)
			random := rand.NewChaCha8([32]byte{1})
			for n := 0; n < keys; {
				var txn kv.Txn
				for range 1000 {
					_, _ = random.Read(value)
					txn.Then = append(txn.Then, kv.Op{Key: fmt.Sprintf("/registry/configmaps/ns%d/c%d", n%100, n), Value: slices.Clone(value)})
					n++
				}
				if _, err := db.Commit(context.Background(), txn); err != nil {
					b.Fatal(err)
				}
			}
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			worked := cpuTime(b)
			for b.Loop() {
				s, err := kinds.Space(context.Background(), db)
				if err != nil || s.Keys != int64(keys) {
					b.Fatal(s, err)
				}
			}
			b.ReportMetric((cpuTime(b)-worked).Seconds()/float64(b.N), "cpu-s/op")
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(int64(after.HeapSys)-int64(before.HeapSys))/float64(keys), "heap-B/key")
		})
	}
}

// cpuTime is the processor time that this process has used.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
