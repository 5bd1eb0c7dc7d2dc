package store

import (
	"context"
	"time"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

const (
	// firstPage is how many keys are asked for at first, when their size is not known.
	firstPage = 2000
	// bulkBytes is about how many bytes of values are asked for at a time.
	bulkBytes = 64 << 20
)

// all calls yield for all keys of a prefix, in order, at one revision, which it returns. It ends early when yield returns false.
// asked is told of each request to etcd.
func (s *Store) all(ctx context.Context, prefix string, asked func(began time.Time, err error), yield kv.Yield) (rev int64, err error) {
	return s.allAt(ctx, prefix, 0, asked, yield)
}

// allAt is all at a given revision; 0: the newest.
func (s *Store) allAt(ctx context.Context, prefix string, rev int64, asked func(began time.Time, err error), yield kv.Yield) (int64, error) {
	from, end := prefix, kv.PrefixEnd(prefix)
	b := bulk{}
	for limit := int64(firstPage); ; {
		var last []byte
		stopped, n, began := false, b.keys, time.Now()
		answer, err := s.db.Range(ctx, kv.Range{Key: from, End: end, Rev: rev, Limit: limit}, func(k kv.KeyValue) bool {
			b.keys, b.bytes, last = b.keys+1, b.bytes+int64(len(k.Value)), k.Key
			stopped = !yield(k)
			return !stopped
		})
		asked(began, err)
		if err != nil {
			return 0, err
		}
		if rev == 0 {
			rev = answer.Rev
		}
		if stopped || !answer.More || last == nil {
			return rev, nil
		}
		limit = b.next(answer.Count - (b.keys - n))
		from = kv.After(last)
	}
}

// bulk counts what was read so far.
type bulk struct{ keys, bytes int64 }

// next is how many of the keys that are left to ask for. With each page etcd walks over all of them to count them, under a lock
// that writes need: pages of one size would take a time that grows with the square of their number.
func (b *bulk) next(left int64) int64 {
	const parts = 8
	return max(1, min(max(firstPage, left/parts), bulkBytes*b.keys/max(b.bytes, 1)))
}
