package kine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kanzen-io/kanzen/internal/backup/kine"
	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// rows are a database of kine.
type rows []kine.Row

func (r rows) Compacted(context.Context) (rev int64, err error) {
	for _, row := range r {
		if row.Name == "compact_rev_key" {
			rev = max(rev, row.PrevRevision)
		}
	}
	return rev, nil
}

func (r rows) Rows(_ context.Context, each func(*kine.Row) error) error {
	for _, row := range r {
		if err := each(&row); err != nil {
			return err
		}
	}
	return nil
}

func (r rows) Close() error { return nil }

func compactRow(rev int64) kine.Row {
	return kine.Row{ID: 1, Name: "compact_rev_key", Created: true, PrevRevision: rev}
}

func created(id int64, name string) kine.Row { return kine.Row{ID: id, Name: name, Created: true} }

func updated(id, createdAt, before int64, name string) kine.Row {
	return kine.Row{ID: id, Name: name, CreateRevision: createdAt, PrevRevision: before}
}

func deleted(id, createdAt, before int64, name string) kine.Row {
	return kine.Row{ID: id, Name: name, Deleted: true, CreateRevision: createdAt, PrevRevision: before}
}

// TestHistory: what becomes of rows that are seldom, on both engines. A key is printed with its revisions, of creation and change, and its version.
func TestHistory(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rows            rows
		head, compacted int64
		at              map[int64]string
		refused         string
	}{
		"nothing but kine's own row": {rows: rows{compactRow(0)}, head: 1, at: map[int64]string{1: ""}},
		"the newest revision is a gap": {
			rows: rows{compactRow(0), created(2, "a"), deleted(3, 0, 0, "gap-3")}, head: 3, at: map[int64]string{2: "a 2 2 1", 3: "a 2 2 1"},
		},
		"revisions are missing": { // a transaction of PostgreSQL was under way
			rows: rows{compactRow(0), created(2, "a"), updated(9, 2, 2, "a")}, head: 9, at: map[int64]string{2: "a 2 2 1", 5: "a 2 2 1", 9: "a 2 9 2"},
		},
		"created again": {
			rows: rows{compactRow(0), created(2, "a"), deleted(3, 2, 2, "a"), {ID: 4, Name: "a", Created: true, PrevRevision: 3}, updated(5, 4, 4, "a")},
			head: 5, at: map[int64]string{2: "a 2 2 1", 3: "", 4: "a 4 4 1", 5: "a 4 5 2"},
		},
		"created before the compaction": {
			rows: rows{compactRow(10), updated(10, 3, 7, "a"), updated(11, 3, 10, "a"), updated(12, 4, 5, "b")}, head: 12, compacted: 10,
			at: map[int64]string{10: "a 3 10 2", 11: "a 3 11 3", 12: "a 3 11 3, b 4 12 2"},
		},
		"compacted at a deletion": {
			rows: rows{compactRow(10), created(8, "a"), created(12, "b")}, head: 12, compacted: 11, at: map[int64]string{11: "a 8 8 1", 12: "a 8 8 1, b 12 12 1"},
		},
		"compacted at a deletion, the newest revision": {
			rows: rows{compactRow(10), created(8, "a"), deleted(10, 2, 5, "c")}, head: 11, compacted: 11, at: map[int64]string{11: "a 8 8 1"},
		},
		"compacted with rows left": {
			rows: rows{compactRow(10), created(2, "a"), updated(3, 2, 2, "a"), created(4, "b"), deleted(5, 4, 4, "b"), created(10, "c")}, head: 10, compacted: 10,
			at: map[int64]string{10: "a 2 3 2, c 10 10 1"},
		},
		"no revision of the creation": { // as before kine 0.3
			rows: rows{compactRow(0), created(2, "a"), updated(3, 0, 2, "a"), updated(4, 99, 1, "b")}, head: 4, at: map[int64]string{3: "a 2 3 2", 4: "a 2 3 2, b 4 4 1"},
		},
		"the key of API servers": {
			rows: rows{compactRow(0), {ID: 2, Name: "compact_rev_key_apiserver", Created: true, Value: []byte("7|100")}}, head: 2,
			at: map[int64]string{2: "compact_rev_key 2 2 7"},
		},
		"no rows":                  {refused: "no rows"},
		"rows out of order":        {rows: rows{created(3, "a"), created(2, "b")}, refused: "row 2 comes after row 3"},
		"compacted after its rows": {rows: rows{compactRow(5), created(2, "a")}, refused: "ends at 2"},
	} {
		for _, engine := range []string{"pebble", "etcd"} {
			t.Run(name+"/"+engine, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				save := func(ctx context.Context, file string, progress func(int64)) error {
					if err := kine.Save(ctx, c.rows, file, progress); err != nil {
						return err
					}
					return snapshot.AddChecksum(file)
				}
				m, err := snapshot.Bring(t.Context(), save, filepath.Join(dir, "data"), engine, nil)
				if c.refused != "" {
					if err == nil || !strings.Contains(err.Error(), c.refused) {
						t.Fatalf("%+v, %v", m, err)
					}
					return
				}
				if err != nil || m.Revision != c.head || m.Compacted != c.compacted {
					t.Fatalf("%+v, %v", m, err)
				}
				db := open(t, engine, filepath.Join(dir, "data", engine))
				for rev, want := range c.at {
					if got := keysAt(t, db, rev); got != want {
						t.Errorf("at %d: %q, not %q", rev, got, want)
					}
				}
				if c.compacted == 0 {
					return
				}
				if _, err := db.Range(t.Context(), kv.Range{Key: "a", Rev: c.compacted - 1, CountOnly: true}, nil); !errors.Is(err, kv.ErrCompacted) {
					t.Errorf("before %d: %v", c.compacted, err)
				}
			})
		}
	}
}

func keysAt(t *testing.T, db store.DB, rev int64) string {
	t.Helper()
	var keys []string
	_, err := db.Range(t.Context(), kv.Range{Key: "\x00", End: kv.NoEnd, Rev: rev}, func(k kv.KeyValue) bool {
		keys = append(keys, fmt.Sprintf("%s %d %d %d", k.Key, k.CreateRevision, k.ModRevision, k.Version))
		return true
	})
	if err != nil {
		t.Errorf("at %d: %v", rev, err)
	}
	slices.Sort(keys)
	return strings.Join(keys, ", ")
}

// TestOpen: an endpoint that cannot be read is an error that names what can, and no password.
func TestOpen(t *testing.T) {
	t.Parallel()
	for endpoint, want := range map[string]string{
		"mysql://root:secret@tcp(127.0.0.1)/kine":        "known are sqlite:///path and postgres://",
		"nats://127.0.0.1":                               "known are",
		"/var/lib/state.db":                              "known are",
		"sqlite:///no/such/state.db":                     "no such file",
		"postgres://kine:secret@127.0.0.1:1/kine":        "127.0.0.1:1",
		"postgres://kine:secret%zz@127.0.0.1:1/kine":     "no URL like",
		"postgres://kine:secret@127.0.0.1:1/?sslmode=no": "sslmode",
	} {
		_, err := kine.Open(t.Context(), endpoint)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}

// TestDatabase brings a database that kine has made (version 0.17.5), so that its table is read where kine is missing.
func TestDatabase(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join("testdata", "state.db"))
	path, dir := filepath.Join(t.TempDir(), "state.db"), filepath.Join(t.TempDir(), "data")
	if err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	m, err := snapshot.Bring(t.Context(), kine.Saver("sqlite://"+path+"?_journal_mode=WAL"), dir, "pebble", nil)
	if err != nil || m.Revision != 17 || m.Compacted != 8 || m.Keys != 5 {
		t.Fatalf("%+v, %v", m, err)
	}
	db := open(t, "pebble", filepath.Join(dir, "pebble"))
	const others = "/registry/events/e 7 7 1, /registry/health 2 2 1, compact_rev_key 8 8 1"
	for rev, want := range map[int64]string{
		8: "/registry/a 3 4 2, " + others, 14: "/registry/a 3 14 8, " + others,
		17: "/registry/b 15 15 1, /registry/c 16 16 1, " + others,
	} {
		if got := keysAt(t, db, rev); got != want {
			t.Errorf("at %d: %q, not %q", rev, got, want)
		}
	}
	if _, err := db.Range(t.Context(), kv.Range{Key: "/registry/a", Rev: 14}, func(k kv.KeyValue) bool {
		if string(k.Value) != "aaaaa" {
			t.Errorf("the value is %q", k.Value)
		}
		return true
	}); err != nil {
		t.Error(err)
	}
}
