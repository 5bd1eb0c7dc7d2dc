package store

import (
	"context"
	"errors"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// This file reads and replaces values as they lie in etcd, encrypted or not, for the rewriting of what former keys have
// encrypted.

// Stored is a value as it lies in etcd.
type Stored struct {
	// Key is below the store's prefix.
	Key string
	// Rev is the revision that wrote it.
	Rev int64
	// Bytes are as they were put; they must not be changed.
	Bytes []byte
}

func (s *Store) stored(k kv.KeyValue) Stored {
	return Stored{Key: string(k.Key[len(s.prefix):]), Rev: k.ModRevision, Bytes: k.Value}
}

// Path is the key in etcd of a key below the store's prefix.
func (s *Store) Path(key string) string { return s.prefix + key }

// Stored calls yield for every value as of a revision (0: the newest), in the order of their keys, until it returns false.
// It returns the revision that was read.
func (s *Store) Stored(ctx context.Context, rev int64, yield func(Stored) bool) (int64, error) {
	from, end := s.prefix, kv.PrefixEnd(s.prefix)
	for more := true; ; {
		var last []byte
		answer, err := s.db.Range(ctx, kv.Range{Key: from, End: end, Rev: rev, Limit: storedPage}, func(k kv.KeyValue) bool {
			last = k.Key
			more = ctx.Err() == nil && yield(s.stored(k))
			return more
		})
		if err != nil {
			return 0, err
		}
		if rev == 0 {
			rev = answer.Rev
		}
		if !more || !answer.More || last == nil {
			return rev, ctx.Err()
		}
		from = kv.After(last)
	}
}

// storedPage is how many values are asked of etcd at a time: an answer has to be in memory as a whole.
const storedPage = 500

// Count returns how many values there are.
func (s *Store) Count(ctx context.Context) (int64, error) {
	answer, err := s.db.Range(ctx, kv.Range{Key: s.prefix, End: kv.PrefixEnd(s.prefix), CountOnly: true}, nil)
	return answer.Count, err
}

// StoredHistory calls yield for every value that can still be asked for although it may be replaced by now: those as of the
// oldest revision that etcd has, and all that were put since, up to the revision that is the newest now. It returns both.
func (s *Store) StoredHistory(ctx context.Context, yield func(Stored)) (oldest, newest int64, err error) {
	if newest, err = s.db.Head(ctx); err != nil {
		return 0, 0, err
	}
	for {
		if oldest, err = s.oldest(ctx, newest); err != nil {
			return 0, 0, err
		}
		_, err = s.Stored(ctx, oldest, func(v Stored) bool { yield(v); return true })
		if err == nil {
			err = s.db.Watch(ctx, kv.Watch{Key: s.prefix, Prefix: true, From: oldest + 1, Until: newest}, func(events []kv.Event, _ int64) error {
				for n := range events {
					if e := &events[n]; !e.Deleted {
						yield(s.stored(e.KeyValue))
					}
				}
				return ctx.Err()
			})
		}
		// A compaction has passed by: what was reported too much does no harm.
		if !errors.Is(err, ErrCompacted) {
			return oldest, newest, err
		}
	}
}

// oldest finds the oldest revision that etcd has; newest is one that it has.
func (s *Store) oldest(ctx context.Context, newest int64) (int64, error) {
	from, to := int64(1), newest // the answer is among them
	for from < to {
		middle := from + (to-from)/2
		switch _, err := s.db.Range(ctx, kv.Range{Key: s.prefix, Rev: middle, CountOnly: true}, nil); {
		case errors.Is(err, ErrCompacted):
			from = middle + 1
		case err != nil:
			return 0, err
		default:
			to = middle
		}
	}
	return from, nil
}

// Replace puts other bytes at a key if the value is still that of revision rev, and reports whether it was. The value ends when it
// would have.
func (s *Store) Replace(ctx context.Context, key string, rev int64, bytes []byte) (replaced bool, err error) {
	path := s.prefix + key
	done, err := s.db.Commit(ctx, kv.Txn{
		If:   []kv.Condition{{Key: path, Is: kv.ModRevision, N: rev}},
		Then: []kv.Op{{Key: path, Value: bytes, KeepTTL: true}},
	})
	return done.Held, err
}
