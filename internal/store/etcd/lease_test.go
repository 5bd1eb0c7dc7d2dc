package etcd

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// observed is a metric that keeps what it is told.
type observed []float64

func (o *observed) Observe(v float64) { *o = append(*o, v) }

// TestLeasesAreShared counts the leases of keys that end, and how long they last.
func TestLeasesAreShared(t *testing.T) {
	now := time.Unix(0, 0)
	var granted []time.Duration
	var sizes observed
	l := newLeaser(nil, &sizes)
	l.now = func() time.Time { return now }
	l.grant = func(_ context.Context, ttl time.Duration) (clientv3.LeaseID, error) {
		granted = append(granted, ttl)
		return clientv3.LeaseID(len(granted)), nil
	}
	get := func(ttl time.Duration, want clientv3.LeaseID) {
		t.Helper()
		if got, err := l.get(t.Context(), ttl); got != want || err != nil {
			t.Errorf("lease %d, want %d (%v)", got, want, err)
		}
	}
	get(time.Hour, 1)
	now = now.Add(59 * time.Second)
	get(time.Hour, 1)
	get(2*time.Second, 2) // too short to be shared
	get(2*time.Second, 3)
	now = now.Add(time.Second)
	get(time.Hour, 4)
	for range leaseKeys - 1 {
		get(time.Hour, 4)
	}
	get(time.Hour, 5) // the other one is full
	if want := []time.Duration{time.Hour + time.Minute, 2 * time.Second, 2 * time.Second, time.Hour + time.Minute, time.Hour + time.Minute}; !slices.Equal(granted, want) {
		t.Errorf("granted %v, want %v", granted, want)
	}
	if want := (observed{1, 2, 1000}); !slices.Equal(sizes, want) {
		t.Errorf("sizes %v, want %v", sizes, want)
	}
	l.forget(t.Context())
	get(time.Hour, 6)
}

// TestLeaseIsGone writes with a lease that etcd has ended meanwhile.
func TestLeaseIsGone(t *testing.T) {
	db, err := OpenEmbedded(t.Context(), Embedded{Dir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	write := func(key string) {
		t.Helper()
		if _, err := db.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: key, TTL: time.Hour}}}); err != nil {
			t.Error(err)
		}
	}
	write("a")
	all, err := db.Client.Leases(t.Context())
	if err != nil || len(all.Leases) != 1 {
		t.Fatal(all, err)
	}
	if _, err := db.Client.Revoke(t.Context(), all.Leases[0].ID); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		t.Fatal(err)
	}
	write("b")
}
