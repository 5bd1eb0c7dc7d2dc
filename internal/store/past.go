package store

import (
	"context"
	"sync"
	"time"
	"weak"

	"github.com/tidwall/btree"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// This file reads revisions that are older than a view's window from etcd: the
// requested range, a page at a time. An object of one revision is shared by all
// its readers. So ten lists of one old revision need little more memory than
// one list, and little more than the view if few objects have changed since.

// Past has what a log has forgotten. Errors of its methods: kv.ErrCompacted, for what is not known any more, kv.ErrFuture.
type Past interface {
	// Range reads keys as of r.Rev, as DB.Range does.
	Range(ctx context.Context, r kv.Range, yield kv.Yield) (kv.Answer, error)
	// Watch passes on the events of keys up to w.Until, as DB.Watch does, with the values before the changes.
	Watch(ctx context.Context, w kv.Watch, deliver kv.Deliver) error
	// Changed passes on the keys of a kind, all that begin so below the prefix, that have changed since a revision: with what each was then,
	// nil if it did not exist. Of a kind whose past is not kept it passes on nothing.
	Changed(ctx context.Context, kind string, rev int64, yield func(key string, k *kv.KeyValue)) error
}

// ranger reads keys.
type ranger interface {
	Range(ctx context.Context, r kv.Range, yield kv.Yield) (kv.Answer, error)
}

// reader reads what the snapshot does not hold.
func (s *Snapshot) reader() ranger {
	if s.beyond {
		return s.view.store.beyond
	}
	return s.view.store.db
}

// SnapshotBeyond is SnapshotAt for who wants to know what the log has forgotten too.
func (v *View) SnapshotBeyond(ctx context.Context, rev int64) (*Snapshot, error) {
	if v.store.beyond == nil {
		return v.SnapshotAt(ctx, rev)
	}
	s, err := v.snapshotAt(ctx, rev)
	if err == nil && !s.InMemory() {
		s.beyond = true
	}
	return s, err
}

// PastItem returns the item of a value that a key had at a revision.
func (v *View) PastItem(ctx context.Context, key string, rev int64, value []byte) *Item {
	return v.item(ctx, kv.KeyValue{Key: []byte(v.etcdPrefix + key), Value: value, ModRevision: rev})
}

// pageBytes is about how many bytes are read of an old revision at a time.
const pageBytes = 1 << 20

// ascendPast is Snapshot.Ascend at a revision that is read from etcd.
func (s *Snapshot) ascendPast(ctx context.Context, r Range, yield func(*Item) bool) error {
	v := s.view
	v.mu.Lock()
	now, limit := v.items.Copy(), pageOf(v.items.Len(), v.bytes)
	v.mu.Unlock()
	if r.Take > 0 {
		limit = min(limit, r.Take)
	}
	from, end := v.etcdPrefix+r.start(), kv.PrefixEnd(v.etcdPrefix+r.Prefix)
	defer v.listedFromEtcd(time.Now())
	for {
		var n int
		var bytes int64
		var last []byte
		enough := false
		page := kv.Range{Key: from, End: end, Rev: s.Rev, Limit: int64(limit)}
		began := time.Now()
		answer, err := s.reader().Range(ctx, page, func(k kv.KeyValue) bool {
			if ctx.Err() != nil {
				return false
			}
			n, bytes, last = n+1, bytes+int64(len(k.Value)), k.Key
			enough = !yield(v.shared(ctx, now, k))
			return !enough
		})
		v.asked(etcdList, began, err)
		switch {
		case err != nil || enough:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case !answer.More || n == 0:
			return nil
		}
		from = kv.After(last)
		// The caller needs more items than estimated, because its selector
		// skipped some.
		limit = min(2*limit, pageOf(n, bytes))
	}
}

// pageOf estimates how many objects make up pageBytes, given that n objects
// have bytes in total.
func pageOf(n int, bytes int64) int {
	return int(min(max(int64(n)*pageBytes/max(bytes, 1), 1), firstPage))
}

// countPast is Snapshot.Count at a revision that is read from etcd.
func (s *Snapshot) countPast(ctx context.Context, r Range) (int64, error) {
	path := s.view.etcdPrefix
	answer, err := s.reader().Range(ctx, kv.Range{Key: path + r.start(), End: kv.PrefixEnd(path + r.Prefix), Rev: s.Rev, CountOnly: true}, nil)
	return answer.Count, err
}

// pastItem is Snapshot.Get at a revision that is read from etcd.
func (s *Snapshot) pastItem(ctx context.Context, key string) (*Item, error) {
	v := s.view
	began := time.Now()
	found, err := read(ctx, s.reader(), v.etcdPrefix+key, s.Rev)
	v.asked(etcdGet, began, err)
	if err != nil || found == nil {
		return nil, err
	}
	return v.shared(ctx, nil, *found), nil
}

// shared returns the item of an old etcd value: the one in now (optional) if
// the object has not changed since, else the one that another reader holds,
// else a new one.
func (v *View) shared(ctx context.Context, now *btree.Map[string, *Item], k kv.KeyValue) *Item {
	key := pastKey{string(k.Key[len(v.etcdPrefix):]), k.ModRevision}
	if now != nil {
		if i, _ := now.Get(key.key); i != nil && i.Rev == key.rev {
			return i
		}
	}
	if i := v.old.get(key); i != nil {
		return i
	}
	i := v.item(ctx, k)
	if i.Err != nil {
		return i // it may be readable later
	}
	return v.old.put(key, i)
}

// pastItems are items of old revisions that some reader still holds.
type pastItems struct {
	mu    sync.Mutex
	items map[pastKey]weak.Pointer[Item]
	sweep int // the number of items at which to drop those that no reader holds
}

type pastKey struct {
	key string
	rev int64 // that wrote it
}

func (p *pastItems) get(k pastKey) *Item {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.items[k].Value()
}

// put returns i, or the item that another reader put meanwhile.
func (p *pastItems) put(k pastKey, i *Item) *Item {
	p.mu.Lock()
	defer p.mu.Unlock()
	if other := p.items[k].Value(); other != nil {
		return other
	}
	if p.items == nil {
		p.items, p.sweep = map[pastKey]weak.Pointer[Item]{}, 1024
	}
	p.items[k] = weak.Make(i)
	if len(p.items) > p.sweep {
		p.sweepLocked()
	}
	return i
}

// cut drops the items that no reader holds.
func (p *pastItems) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweepLocked()
}

func (p *pastItems) sweepLocked() {
	for k, i := range p.items {
		if i.Value() == nil {
			delete(p.items, k)
		}
	}
	p.sweep = max(1024, 2*len(p.items))
	if len(p.items) == 0 {
		p.items = nil // a map does not shrink
	}
}
