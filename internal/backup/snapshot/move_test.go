package snapshot_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
	"github.com/kanzen-io/kanzen/internal/process/datadir"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/pebble"
)

// TestMoveOfWhatHasEnded moves a database that was stopped for so long that keys of it have ended: nothing is deleted on the way, so that what
// comes of it is the same. The server does that.
func TestMoveOfWhatHasEnded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := pebble.Open(pebble.Config{Dir: filepath.Join(dir, "pebble"), Clock: testclock.NewFakeClock(time.Now().Add(-3 * time.Hour))})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 300 {
		if _, err := db.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: fmt.Sprintf("/registry/events/%03d", n), TTL: time.Hour}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if c, err := snapshot.Check(t.Context(), dir, nil, false); err != nil || c.Keys != 300 || c.Revision != 301 {
		t.Fatalf("%+v, %v", c, err)
	}
	if m, err := snapshot.Move(t.Context(), dir, "etcd", nil); err != nil || m.Keys != 300 || m.Revision != 301 {
		t.Fatalf("%+v, %v", m, err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "pebble.before-migration")); err != nil {
		t.Fatal(err)
	}
	if m, err := snapshot.Move(t.Context(), dir, "pebble", nil); err != nil || m.Revision < 301 { // etcd may have begun to delete them
		t.Fatalf("back: %+v, %v", m, err)
	}
}

// TestMoveUnderServer: nothing is moved or checked while a server has the directory, whether or not it has opened its database.
func TestMoveUnderServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	unlock, err := datadir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	db, err := pebble.Open(pebble.Config{Dir: filepath.Join(dir, "pebble")})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	_, moved := snapshot.Move(t.Context(), dir, "etcd", nil)
	_, checked := snapshot.Check(t.Context(), dir, nil, false)
	for _, err := range []error{moved, checked} {
		if err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("under a server: %v", err)
		}
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	if _, err := snapshot.Move(t.Context(), dir, "etcd", nil); err != nil {
		t.Error(err)
	}
}
