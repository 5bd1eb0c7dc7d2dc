package store

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// compactKey is shared by all API servers of an etcd, including
// kube-apiservers. Its version counts the rounds and its value is the revision
// that the last round compacted at, which kube-apiservers read. The server that
// writes the key compacts.
const compactKey = "compact_rev_key"

// compactedAfter is how often a server looks whether another one has compacted: as often as kube-apiserver does.
const compactedAfter = 15 * time.Second

// runCompacted follows compactions by other servers, whether or not this one compacts.
func (s *Store) runCompacted(ctx context.Context) {
	for {
		select {
		case <-s.clock.After(compactedAfter):
			if rev, err := s.Compacted(ctx); err == nil { // an etcd that does not answer is reported by those who need the answer
				s.endPast(rev)
			}
		case <-ctx.Done():
			return
		}
	}
}

// Compacted returns the revision at which the history was compacted for the last time by a server, 0 if it never was.
func (s *Store) Compacted(ctx context.Context) (int64, error) {
	k, err := read(ctx, s.db, compactKey, 0)
	if k == nil || err != nil {
		return 0, err
	}
	return compactedAt(k.Value), nil
}

// compactedAt reads the value of the key; another program may have written anything there, which is 0.
func compactedAt(value []byte) int64 {
	rev, _ := strconv.ParseInt(string(value), 10, 64)
	return rev
}

// endPast ends exact reads of revisions before rev, also of those that windows still reach. A compaction is the end of a paged list
// for every server, so that clients learn it in the same way whichever of them they ask. Watches go on from the window.
func (s *Store) endPast(rev int64) {
	for rev <= s.Revision() { // a value from the future is no compaction
		known := s.compacted.Load()
		if rev <= known || s.compacted.CompareAndSwap(known, rev) {
			return
		}
	}
}

// RunCompaction compacts, every interval, the history that is older than one interval. Of several servers on one log only one
// does it at a time.
func (s *Store) RunCompaction(ctx context.Context, interval time.Duration) error {
	(&compactor{db: s.db, clock: s.clock, log: s.log, compacted: s.endPast}).run(ctx, interval)
	return nil
}

// RunCompaction is that of a Store for a log that no Store follows as a whole.
func RunCompaction(ctx context.Context, db DB, clk clock.Clock, log *slog.Logger, interval time.Duration) {
	(&compactor{db: db, clock: clk, log: log, compacted: func(int64) {}}).run(ctx, interval)
}

// compactor compacts a log.
type compactor struct {
	db    DB
	clock clock.Clock
	log   *slog.Logger
	// compacted is told at which revision.
	compacted func(rev int64)
}

func (c *compactor) run(ctx context.Context, interval time.Duration) {
	var version, rev int64
	for {
		select {
		case <-c.clock.After(interval):
		case <-ctx.Done():
			return
		}
		v, r, err := c.once(ctx, version, rev)
		if err != nil && ctx.Err() == nil {
			c.log.Warn("compacting etcd", "error", err)
			continue
		}
		version, rev = v, r
	}
}

// once begins a round if no other server has begun one since version. It
// then compacts at rev, the revision at which the last round began. It returns
// the version and revision of the current round.
func (c *compactor) once(ctx context.Context, version, rev int64) (int64, int64, error) {
	done, err := c.db.Commit(ctx, kv.Txn{
		If:   []kv.Condition{{Key: compactKey, Is: kv.Version, N: version}},
		Then: []kv.Op{{Key: compactKey, Value: strconv.AppendInt(nil, rev, 10)}},
		Else: []string{compactKey},
	})
	if err != nil {
		return version, rev, err
	}
	if !done.Held {
		// Another server is ahead; follow its round.
		other := done.Else[0]
		if other == nil {
			return 0, done.Rev, nil
		}
		c.compacted(compactedAt(other.Value))
		return other.Version, done.Rev, nil
	}
	if rev > 0 {
		if err := c.db.Compact(ctx, rev); err != nil {
			return version + 1, done.Rev, fmt.Errorf("compact at revision %d: %w", rev, err)
		}
		c.compacted(rev)
	}
	return version + 1, done.Rev, nil
}
