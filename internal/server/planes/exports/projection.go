package exports

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// viewPrefix begins all keys of a projection.
const viewPrefix = "/registry/"

// projected is a kind of a projection.
type projected struct {
	GroupResource
	prefix     string // of its keys in each plane, with a slash at the end
	namespaced bool
}

// projection is what a provider sees of the log, as a log: the objects of the planes that have bound an export. It cannot be written to.
//
// The keys of a kind are PREFIX/NAMESPACE/PLANE/NAME, or PREFIX//PLANE/NAME: as in a plane, a namespace is a range, and the last part
// is the name. The revisions are those of the log. What a record makes visible, or hides, has come or gone at the revision of the
// record (kv.Event.At), and is as it was.
type projection struct {
	store.DB
	planes  Planes
	open    opener
	records string // the prefix of the records of the export
	kinds   []projected

	mu    sync.Mutex
	pages *pages // the rest of a range that is read in pages; guarded by mu
}

// pages are all keys of a kind at a revision, in their order.
type pages struct {
	kind *projected
	rev  int64
	keys []kv.KeyValue
}

var errReadOnly = errors.New("a view of many planes cannot be written to")

// Commit is part of store.DB.
func (p *projection) Commit(context.Context, kv.Txn) (kv.Committed, error) {
	return kv.Committed{}, errReadOnly
}

// Compact is part of store.DB.
func (p *projection) Compact(context.Context, int64) error { return errReadOnly }

// kindOf returns the kind of a key; nil: it is of none.
func (p *projection) kindOf(key string) *projected {
	below, ok := strings.CutPrefix(key, viewPrefix)
	if !ok {
		return nil
	}
	for n := range p.kinds {
		if strings.HasPrefix(below, p.kinds[n].prefix) {
			return &p.kinds[n]
		}
	}
	return nil
}

// key returns the key of what a plane has below the prefix of a kind.
func (k *projected) key(plane, below string) []byte {
	namespace, name := "", below
	if k.namespaced {
		namespace, name, _ = strings.Cut(below, "/")
	}
	return []byte(viewPrefix + k.prefix + namespace + "/" + plane + "/" + name)
}

// Range is part of store.DB.
func (p *projection) Range(ctx context.Context, r kv.Range, yield kv.Yield) (kv.Answer, error) {
	head := r.Rev
	if head == 0 {
		var err error
		if head, err = p.DB.Head(ctx); err != nil {
			return kv.Answer{}, err
		}
	}
	answer := kv.Answer{Rev: head}
	kind := p.kindOf(r.Key)
	if kind == nil {
		return answer, nil // the store's own bookkeeping, of which there is none
	}
	all, err := p.all(ctx, kind, head)
	if err != nil {
		return answer, err
	}
	end := r.End
	if end == "" {
		end = kv.After([]byte(r.Key))
	}
	from := sort(all, r.Key)
	to := len(all)
	if end != kv.NoEnd {
		to = sort(all, end)
	}
	answer.Count = int64(max(to-from, 0))
	if r.CountOnly || answer.Count == 0 {
		p.keep(nil)
		return answer, nil
	}
	if r.Limit > 0 && answer.Count > r.Limit {
		to, answer.More = from+int(r.Limit), true
	}
	if answer.More {
		p.keep(&pages{kind, head, all})
	} else {
		p.keep(nil)
	}
	for _, k := range all[from:to] {
		if !yield(k) {
			break
		}
	}
	return answer, nil
}

// sort returns the place of the first key that is not before another.
func sort(all []kv.KeyValue, key string) int {
	n, _ := slices.BinarySearchFunc(all, key, func(k kv.KeyValue, key string) int { return cmp.Compare(string(k.Key), key) })
	return n
}

func (p *projection) keep(all *pages) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pages = all
}

// all returns all keys of a kind at a revision, in their order.
func (p *projection) all(ctx context.Context, kind *projected, rev int64) ([]kv.KeyValue, error) {
	p.mu.Lock()
	kept := p.pages
	p.mu.Unlock()
	if kept != nil && kept.kind == kind && kept.rev == rev {
		return kept.keys, nil
	}
	records, err := readRecords(ctx, p.DB, p.records, rev)
	if err != nil {
		return nil, err
	}
	var all []kv.KeyValue
	for uid, r := range records {
		if err := p.ofPlane(ctx, kind, types.UID(uid), r, rev, func(k kv.KeyValue) { all = append(all, k) }); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b kv.KeyValue) int { return cmp.Compare(string(a.Key), string(b.Key)) })
	return all, nil
}

// ofPlane passes on what a record shows of a plane at a revision.
func (p *projection) ofPlane(ctx context.Context, kind *projected, uid types.UID, r *record, rev int64, each func(kv.KeyValue)) error {
	if _, ok := r.shows(kind.GroupResource); !ok {
		return nil
	}
	db, prefix, err := p.planes.Log(ctx, uid)
	if err != nil {
		return err
	}
	at := prefix + kind.prefix
	var failed error
	_, err = db.Range(ctx, kv.Range{Key: at, End: kv.PrefixEnd(at), Rev: rev}, func(k kv.KeyValue) bool {
		var ok bool
		if k, ok, failed = p.seen(ctx, kind, r, k, strings.TrimPrefix(string(k.Key), at)); ok {
			each(k)
		}
		return failed == nil
	})
	if err == nil {
		err = failed
	}
	return err
}

// seen returns a stored key as the provider sees it; ok is false if the record does not show it.
func (p *projection) seen(ctx context.Context, kind *projected, r *record, k kv.KeyValue, below string) (_ kv.KeyValue, ok bool, err error) {
	which, ok := r.shows(kind.GroupResource)
	if !ok {
		return k, false, nil
	}
	value, err := p.open(ctx, kind.GroupResource, string(k.Key), k.Value)
	if err != nil {
		return k, false, err
	}
	if !which.Empty() {
		set, err := engine.LabelsOf(value)
		if err != nil || !which.Matches(set) {
			return k, false, err
		}
	}
	if k.Value, err = annotated(value, r.Plane); err != nil {
		return k, false, err
	}
	k.Key = kind.key(r.Plane, below)
	return k, true, nil
}
