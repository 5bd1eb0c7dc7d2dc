package etcd

import (
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestEmbedded(t *testing.T) {
	dir := t.TempDir()
	start := time.Now()
	db, err := OpenEmbedded(t.Context(), Embedded{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ready after %v", time.Since(start))
	if _, err := OpenEmbedded(t.Context(), Embedded{Dir: dir}); !errors.Is(err, ErrInUse) {
		t.Errorf("second open: %v, want ErrInUse", err)
	}
	put, err := db.Client.Put(t.Context(), "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	if head, err := db.Head(t.Context()); err != nil || head < put.Header.Revision {
		t.Errorf("head %d, %v; want at least %d", head, err, put.Header.Revision)
	}
	w := db.Client.Watch(t.Context(), "a", clientv3.WithRev(1))
	if r := <-w; len(r.Events) != 1 {
		t.Errorf("got %d events, want 1", len(r.Events))
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db, err = OpenEmbedded(t.Context(), Embedded{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if r, err := db.Client.Get(t.Context(), "a"); err != nil || len(r.Kvs) != 1 {
		t.Errorf("after restart: %v, %v", r, err)
	}
}
