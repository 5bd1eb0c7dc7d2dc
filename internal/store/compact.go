package store

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// compactKey is shared by all API servers of an etcd, including
// kube-apiservers. Its version counts the rounds and its value is the revision
// that the last round compacted at, which kube-apiservers read. The server that
// writes the key compacts.
const compactKey = "compact_rev_key"

// runCompaction is RunCompaction without the parts.
func (s *Store) runCompaction(ctx context.Context, interval time.Duration) error {
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

// compactOnce begins a round if no other server has begun one since version. It
// then compacts at rev, the revision at which the last round began. It returns
// the version and revision of the current round.
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
