package findings

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/memory"
)

// scanning is a view whose items are scanned.
type scanning struct {
	t      *testing.T
	db     *memory.DB
	view   *store.View
	before *scanned
	looked []string // names of items
}

func newScanning(t *testing.T) *scanning {
	db := memory.New(clock.RealClock{})
	s := &scanning{t: t, db: db, before: &scanned{}}
	s.load(nil)
	return s
}

// load loads the view anew.
func (s *scanning) load(transformer store.Transformer) {
	st := store.New(s.db, store.Options{Prefix: "/registry/"})
	ctx, cancel := context.WithCancel(s.t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = st.Run(ctx) })
	s.t.Cleanup(func() { cancel(); running.Wait() })
	s.view = st.View(store.Kind{Prefix: "pods/", Transformer: transformer})
}

func (s *scanning) write(ops ...kv.Op) {
	s.t.Helper()
	for n := range ops {
		ops[n].Key = "/registry/pods/" + ops[n].Key
	}
	if _, err := s.db.Commit(s.t.Context(), kv.Txn{Then: ops}); err != nil {
		s.t.Fatal(err)
	}
}

func put(key, value string) kv.Op { return kv.Op{Key: key, Value: []byte(value)} }

// scan returns the items of interest, and those that were looked into.
func (s *scanning) scan() (found, looked string) {
	s.t.Helper()
	if err := s.view.Fresh(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	snap, err := s.view.Snapshot(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	s.looked = nil
	now := &scanned{rev: snap.Rev}
	err = now.find(s.t.Context(), snap, s.before, func(i *store.Item) bool {
		s.looked = append(s.looked, i.Name())
		return pending(i)
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.before = now
	var names []string
	for _, i := range now.items {
		names = append(names, i.Name())
	}
	return strings.Join(names, " "), strings.Join(s.looked, " ")
}

// TestScan looks only into what has changed, and finds what a look into everything would.
func TestScan(t *testing.T) {
	s := newScanning(t)
	s.write(put("n/a", "Pending"), put("n/b", "Running"), put("n/c", "Pending"))
	for n, c := range []struct {
		ops           []kv.Op
		found, looked string
	}{
		{nil, "a c", "a b c"},
		{nil, "a c", ""},
		{[]kv.Op{put("n/b", "Pending")}, "a b c", "b"},
		{[]kv.Op{put("n/a", "Running"), put("n/d", "Pending"), put("m/e", "Running")}, "b c d", "e a d"},
		{[]kv.Op{{Key: "n/c", Delete: true}}, "b d", ""},
		{[]kv.Op{put("n/c", "Pending"), {Key: "n/b", Delete: true}, {Key: "n/d", Delete: true}}, "c", "c"},
	} {
		s.write(c.ops...)
		if found, looked := s.scan(); found != c.found || looked != c.looked {
			t.Errorf("%d: found %q, looked into %q", n, found, looked)
		}
	}
}

// TestScanOfValuesThatHeal has values that can be decrypted only later, in items of the same revisions.
func TestScanOfValuesThatHeal(t *testing.T) {
	s := newScanning(t)
	s.write(put("n/a", "Pending"), put("n/b", "secret Pending"), put("n/c", "secret Running"), put("n/d", "Running"))
	s.load(locked{})
	if found, looked := s.scan(); found != "a b c" || looked != "a d" {
		t.Errorf("found %q, looked into %q", found, looked)
	}
	s.load(nil)
	if found, looked := s.scan(); found != "a b" || looked != "a b c" {
		t.Errorf("found %q, looked into %q", found, looked)
	}
}

// locked is a transformer that cannot read secrets.
type locked struct{}

func (locked) FromStorage(_ context.Context, _ string, stored []byte) ([]byte, bool, error) {
	if bytes.HasPrefix(stored, []byte("secret")) {
		return nil, false, errors.New("locked")
	}
	return stored, false, nil
}

func (locked) ToStorage(_ context.Context, _ string, value []byte) ([]byte, error) { return value, nil }
