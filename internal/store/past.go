package store

import (
	"context"
	"sync"
	"weak"

	"github.com/tidwall/btree"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// This file reads revisions that are older than a view's window from etcd: the
// range that is asked for, a page at a time. What is read is shared with all
// who hold the same object of the same revision, so that ten lists of one old
// revision hold little more than one, and little more than the view if few
// objects have changed since.

// pageBytes is about how much is read of an old revision at a time.
const pageBytes = 1 << 20

// ascendPast is Snapshot.Ascend at a revision that etcd has to be asked for.
func (v *View) ascendPast(ctx context.Context, rev int64, r Range, yield func(*Item) bool) error {
	v.mu.Lock()
	now, page := v.items.Copy(), pageOf(v.items.Len(), v.bytes)
	v.mu.Unlock()
	if r.Take > 0 {
		page = min(page, r.Take)
	}
	from, end := v.etcdPrefix+r.start(), clientv3.GetPrefixRangeEnd(v.etcdPrefix+r.Prefix)
	for {
		resp, err := v.store.db.Client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithRev(rev), clientv3.WithLimit(int64(page)))
		if err != nil {
			return compactedOr(err)
		}
		var bytes int64
		for n, kv := range resp.Kvs {
			resp.Kvs[n] = nil // what yield does not keep, nobody does
			bytes += int64(len(kv.Value))
			if err := ctx.Err(); err != nil {
				return err
			}
			if from = string(kv.Key); !yield(v.shared(ctx, now, kv)) {
				return nil
			}
		}
		if !resp.More || len(resp.Kvs) == 0 {
			return nil
		}
		from += "\x00"
		// More is needed than was thought: items were not selected.
		page = min(2*page, pageOf(len(resp.Kvs), bytes))
	}
}

// pageOf is how many objects are about pageBytes, judged by n that have some
// bytes together.
func pageOf(n int, bytes int64) int {
	return int(min(max(int64(n)*pageBytes/max(bytes, 1), 1), loadPage))
}

// countPast is Snapshot.Count at a revision that etcd has to be asked for.
func (v *View) countPast(ctx context.Context, rev int64, r Range) (int64, error) {
	resp, err := v.store.db.Client.Get(ctx, v.etcdPrefix+r.start(), clientv3.WithCountOnly(), clientv3.WithRev(rev),
		clientv3.WithRange(clientv3.GetPrefixRangeEnd(v.etcdPrefix+r.Prefix)))
	if err != nil {
		return 0, compactedOr(err)
	}
	return resp.Count, nil
}

// pastItem is Snapshot.Get at a revision that etcd has to be asked for.
func (v *View) pastItem(ctx context.Context, key string, rev int64) (*Item, error) {
	resp, err := v.store.db.Client.Get(ctx, v.etcdPrefix+key, clientv3.WithRev(rev))
	if err != nil {
		return nil, compactedOr(err)
	}
	if len(resp.Kvs) == 0 {
		return nil, nil
	}
	return v.shared(ctx, nil, resp.Kvs[0]), nil
}

// shared returns the item of an etcd value of the past: that of now (optional),
// if the object has not changed since, or the one that another reader holds.
func (v *View) shared(ctx context.Context, now *btree.Map[string, *Item], kv *mvccpb.KeyValue) *Item {
	key := pastKey{string(kv.Key[len(v.etcdPrefix):]), kv.ModRevision}
	if now != nil {
		if i, _ := now.Get(key.key); i != nil && i.Rev == key.rev {
			return i
		}
	}
	if i := v.old.get(key); i != nil {
		return i
	}
	i := v.item(ctx, kv)
	if i.Err != nil {
		return i // it may be read another time
	}
	return v.old.put(key, i)
}

// pastItems are items of old revisions that somebody still holds.
type pastItems struct {
	mu    sync.Mutex
	items map[pastKey]weak.Pointer[Item]
	sweep int // how many make it worth while to drop those that nobody holds
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

// put returns i, or the item that was put by somebody else meanwhile.
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

// cut drops what nobody holds.
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
