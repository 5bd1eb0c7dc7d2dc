package store

import (
	"context"
	"fmt"
	"time"

	"github.com/tidwall/btree"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// compareEvery is how often views are compared with the log: as often as kube-apiserver compares its caches with etcd.
const compareEvery = 5 * time.Minute

// runCompare compares all loaded views with the log from time to time, one after the other, until ctx ends. By design they are the same; a
// database that loses an event, or a fault of this package, would otherwise be seen by clients alone, for as long as the server runs.
func (s *Store) runCompare(ctx context.Context) {
	for {
		select {
		case <-s.clock.After(compareEvery):
		case <-ctx.Done():
			return
		}
		for _, v := range s.allViews() {
			v.compare(ctx)
		}
	}
}

// Outcomes of a comparison, as kube-apiserver's metric names them.
const (
	compareSame   = "success"
	compareDiffer = "failure"
	compareFailed = "error"
)

// compare compares the view, if it is loaded, with what the log has at the same revision. A view that differs is dropped: it is loaded again by
// the next reader, and its watchers go on from the log's history.
func (v *View) compare(ctx context.Context) {
	items, epoch, rev := v.current()
	if items == nil {
		return
	}
	differs, err := v.differs(ctx, items, rev)
	outcome := compareSame
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		outcome = compareFailed
		v.store.log.Debug("a view could not be compared with etcd", "view", v.kind.Prefix, "revision", rev, "error", err)
	case differs != "":
		outcome = compareDiffer
		v.store.log.Error("a view is not what etcd has; it is loaded again", "view", v.kind.Prefix, "revision", rev, "difference", differs)
		v.mu.Lock()
		if v.epoch == epoch {
			v.resetLocked()
		}
		v.mu.Unlock()
	}
	v.unlessGone(func(m *Metrics) {
		m.compared.WithLabelValues(v.kind.Resource.Group, v.kind.Resource.Resource, outcome).Inc()
	})
}

// current returns the items of the view, nil if it is not loaded, and the revision that they are at.
func (v *View) current() (items *btree.Map[string, *Item], epoch int, rev int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.state != loaded {
		return nil, 0, 0
	}
	return v.items.Copy(), v.epoch, v.passedLocked()
}

// differs reads the log at a revision, and says what is the first difference of its keys and their revisions from items; "": there is none.
func (v *View) differs(ctx context.Context, items *btree.Map[string, *Item], rev int64) (string, error) {
	at := items.Iter()
	more, difference := at.First(), ""
	asked := func(began time.Time, err error) { v.asked(etcdList, began, err) }
	_, err := v.store.allAt(ctx, v.etcdPrefix, rev, asked, func(k kv.KeyValue) bool {
		key := string(k.Key[len(v.etcdPrefix):])
		if !more || at.Key() != key || at.Value().Rev != k.ModRevision {
			difference = fmt.Sprintf("etcd has %s at %d, and the view %s", key, k.ModRevision, described(at, more))
			return false
		}
		more = at.Next()
		return ctx.Err() == nil
	})
	if err != nil {
		return "", err
	}
	if difference == "" && more {
		difference = fmt.Sprintf("etcd has no more, and the view %s", described(at, more))
	}
	return difference, ctx.Err()
}

// described names the item at which an iterator is.
func described(at btree.MapIter[string, *Item], more bool) string {
	if !more {
		return "no more"
	}
	return fmt.Sprintf("%s at %d", at.Key(), at.Value().Rev)
}
