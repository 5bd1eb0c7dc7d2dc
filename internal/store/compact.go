package store

import (
	"context"
	"fmt"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// compactKey is shared by all API servers of an etcd, kube-apiservers too. Its
// version counts the rounds and its value is the revision that the last round
// compacted at, which kube-apiservers read; who moves it compacts.
const compactKey = "compact_rev_key"

// RunCompaction lets etcd forget, every interval, what is older than one
// interval. Of several servers on one etcd one at a time does it.
func (s *Store) RunCompaction(ctx context.Context, interval time.Duration) error {
	var version, rev int64
	for {
		select {
		case <-s.clock.After(interval):
		case <-ctx.Done():
			return nil
		}
		v, r, err := s.compactOnce(ctx, version, rev)
		if err != nil && ctx.Err() == nil {
			s.log.Warn("compacting etcd", "error", err)
			continue
		}
		version, rev = v, r
	}
}

// compactOnce begins a round if nobody has since version, compacting at rev,
// where the last round began. It returns the version and revision of the
// round that now runs.
func (s *Store) compactOnce(ctx context.Context, version, rev int64) (int64, int64, error) {
	r, err := s.db.Client.Txn(ctx).
		If(clientv3.Compare(clientv3.Version(compactKey), "=", version)).
		Then(clientv3.OpPut(compactKey, strconv.FormatInt(rev, 10))).
		Else(clientv3.OpGet(compactKey)).
		Commit()
	if err != nil {
		return version, rev, err
	}
	if !r.Succeeded {
		// Another server is ahead; follow its round.
		kvs := r.Responses[0].GetResponseRange().Kvs
		if len(kvs) == 0 {
			return 0, r.Header.Revision, nil
		}
		return kvs[0].Version, r.Header.Revision, nil
	}
	if rev > 0 {
		if _, err := s.db.Client.Compact(ctx, rev); err != nil {
			return version + 1, r.Header.Revision, fmt.Errorf("compact at revision %d: %w", rev, err)
		}
	}
	return version + 1, r.Header.Revision, nil
}
