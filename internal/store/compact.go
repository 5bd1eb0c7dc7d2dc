package store

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/kanzen-io/kanzen/internal/store/kv"
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
	done, err := s.db.Commit(ctx, kv.Txn{
		If:   []kv.Condition{{Key: compactKey, Is: kv.Version, N: version}},
		Then: []kv.Op{{Key: compactKey, Value: strconv.AppendInt(nil, rev, 10)}},
		Else: compactKey,
	})
	if err != nil {
		return version, rev, err
	}
	if !done.Held {
		// Another server is ahead; follow its round.
		if done.Else == nil {
			return 0, done.Rev, nil
		}
		return done.Else.Version, done.Rev, nil
	}
	if rev > 0 {
		if err := s.db.Compact(ctx, rev); err != nil {
			return version + 1, done.Rev, fmt.Errorf("compact at revision %d: %w", rev, err)
		}
	}
	return version + 1, done.Rev, nil
}
