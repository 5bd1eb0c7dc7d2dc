package pebble_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/etcd"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/pebble"
)

// churn changes keys, some of which end in an hour, and compacts a part of the history.
func churn(t *testing.T, db store.DB, r *rand.Rand) {
	t.Helper()
	head, err := db.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for n := range 200 {
		var txn kv.Txn
		for _, k := range r.Perm(20)[:1+r.IntN(3)] {
			o := kv.Op{Key: fmt.Sprintf("/registry/k\x00%d", k), Value: fmt.Append(nil, n)}
			switch r.IntN(5) {
			case 0:
				o.Delete, o.Value = true, nil
			case 1:
				o.TTL = time.Hour
			}
			txn.Then = append(txn.Then, o)
		}
		if _, err := db.Commit(t.Context(), txn); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Compact(t.Context(), head+80); err != nil {
		t.Fatal(err)
	}
}

// contents is all that readers can see of a database: its keys at each revision, and its history.
func contents(t *testing.T, db store.DB) (out []string) {
	t.Helper()
	head, err := db.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for rev := int64(1); rev <= head; rev++ {
		line := fmt.Sprint(rev, ":")
		_, err := db.Range(t.Context(), kv.Range{Key: "/", End: "0", Rev: rev}, func(k kv.KeyValue) bool {
			line += fmt.Sprintf(" %q=%s(%d,%d,%d)", k.Key, k.Value, k.CreateRevision, k.ModRevision, k.Version)
			return true
		})
		if err != nil {
			line += err.Error()
		}
		out = append(out, line)
	}
	for from := head; from > 0; from -= 47 {
		line := fmt.Sprint("from ", from, ":")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := db.Watch(ctx, kv.Watch{Key: "/", Prefix: true, From: from, Until: head}, func(events []kv.Event, rev int64) error {
			byKey := map[string]string{}
			for _, e := range events {
				byKey[fmt.Sprint(e.ModRevision, string(e.Key))] = fmt.Sprintf("%t=%s(%d,%d)", e.Deleted, e.Value, e.CreateRevision, e.Version)
			}
			line += fmt.Sprint(byKey)
			return nil
		})
		cancel()
		if err != nil {
			out = append(out, fmt.Sprint(from, err))
			break
		}
		out = append(out, line)
	}
	return out
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d lines, not %d", what, len(got), len(want))
	}
	for n := range got {
		if got[n] != want[n] {
			t.Fatalf("%s:\ngot  %.300s\nwant %.300s", what, got[n], want[n])
		}
	}
}

// save writes a snapshot of a database to a file.
func save(t *testing.T, db interface {
	Snapshot(ctx context.Context) (io.ReadCloser, error)
}) string {
	t.Helper()
	from, err := db.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = from.Close() }()
	path := filepath.Join(t.TempDir(), "saved.db")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(f, from); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestToAndFromEtcd moves a database from etcd to Pebble and back, and a database of Pebble to etcd: readers see the same, at the same revisions.
func TestToAndFromEtcd(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	inEtcd := func(dir string) *etcd.DB {
		db, err := etcd.OpenEmbedded(t.Context(), etcd.Embedded{Dir: dir, UnsafeNoFsync: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	inPebble := func(dir string) *pebble.DB {
		db, err := pebble.Open(pebble.Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	toPebble := func(file string) *pebble.DB {
		dir := filepath.Join(t.TempDir(), "pebble")
		if _, err := pebble.Import(t.Context(), file, pebble.Config{Dir: dir}); err != nil {
			t.Fatal(err)
		}
		db := inPebble(dir)
		if c, err := db.Check(t.Context()); err != nil || c.Keys == 0 || c.Ends == 0 || c.Records <= c.Keys || c.Revisions == 0 {
			t.Errorf("%+v, %v", c, err)
		}
		return db
	}
	toEtcd := func(file string) *etcd.DB {
		dir := filepath.Join(t.TempDir(), "etcd")
		if err := snapshot.RestoreData(t.Context(), file, dir, snapshot.SoleMember(), 0); err != nil {
			t.Fatal(err)
		}
		return inEtcd(dir)
	}
	first := inEtcd(t.TempDir())
	churn(t, first, r)
	want := contents(t, first)
	moved := toPebble(save(t, first))
	same(t, "from etcd to Pebble", contents(t, moved), want)
	same(t, "and back", contents(t, toEtcd(save(t, moved))), want)
	churn(t, moved, r) // goes on
	want = contents(t, moved)
	same(t, "from Pebble to etcd", contents(t, toEtcd(save(t, moved))), want)
	same(t, "from Pebble to Pebble", contents(t, toPebble(save(t, moved))), want)
}
