package engine

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/store"
)

// list answers with the selected objects, or a page of them.
func (c *call) list() error {
	can := c.restrict()
	can.partial, can.list = "PartialObjectMetadataList", true
	out, err := negotiate(c.req, can)
	if err != nil {
		return err
	}
	o, err := c.listOptions()
	if err != nil {
		return err
	}
	if o.Watch {
		return c.watch()
	}
	if c.R.List != nil {
		return c.listVirtual(out, o)
	}
	only, err := c.projection(out, false)
	if err != nil {
		return err
	}
	p, err := c.page(c.req.Context(), o)
	if err != nil {
		return c.storeError(err, "")
	}
	p.only = only
	defer c.answers().End()
	err = c.writeList(out, p)
	if err != nil && c.e.UnsafeDelete && c.req.Context().Err() == nil {
		err = cmp.Or(c.allCorrupt(func(yield func(*store.Item) bool) error {
			for n, i := range p.items {
				if err := ended(c.req.Context(), n); err != nil || !yield(i) {
					return err
				}
			}
			return nil
		}), err)
	}
	return c.storeError(err, "")
}

// page is the result of a list.
type page struct {
	items []*store.Item
	meta  metav1.ListMeta
	// of is how many items the list has of which this is a page, if all are selected; else 0.
	of int64
	// only are the fields to which the items are cut; nil: they are whole.
	only *projection
}

// page selects the objects of a list.
func (c *call) page(ctx context.Context, o *internalversion.ListOptions) (*page, error) {
	sel, err := c.selects(ctx, o)
	if err != nil {
		return nil, err
	}
	ctx, s := c.reading(ctx, "cacher.GetList", c.namespace, o.ResourceVersion)
	defer s.End()
	var p *page
	snap, start, err := c.snapshot(ctx, o)
	if err == nil && sel.narrow != nil {
		// By the newest rights, and by all that were given or taken before the objects were as they are listed.
		if err = sel.narrow.reach(ctx, snap.Rev); err == nil {
			sel.narrow.set, err = sel.narrow.make(ctx)
		}
	}
	if err == nil {
		if sel.sort != nil {
			p, err = c.sorted(ctx, snap, start, sel, o)
		} else {
			p, err = c.pageOf(ctx, snap, start, sel, o)
		}
	}
	if errors.Is(err, store.ErrCompacted) && o.Continue != "" {
		err = continueExpired(start)
	}
	if err == nil {
		s.EventLen("Filtered items", "count", len(p.items))
	}
	return p, err
}

// pageOf selects the objects of a list from a snapshot, from key start on. The
// key is relative to the namespace.
func (c *call) pageOf(ctx context.Context, snap *store.Snapshot, start string, sel selected, o *internalversion.ListOptions) (*page, error) {
	limit := int(o.Limit)
	if o.ResourceVersion == "0" && o.ResourceVersionMatch != metav1.ResourceVersionMatchExact && !c.e.PagesAtZero {
		limit = 0 // any revision is accepted, so the whole list is as cheap as a page
	}
	p := &page{meta: metav1.ListMeta{ResourceVersion: formatRev(snap.Rev)}}
	if sel.shard != nil {
		p.meta.ShardInfo = sel.shard.info
	}
	read := 0
	defer func() { snap.Listed(c.view, read, len(p.items)) }()
	if sel.name != "" && c.namesOne() {
		// At most one object, found by its key.
		i, err := snap.Get(ctx, sel.prefix+sel.name)
		if err != nil {
			return nil, err
		}
		if i != nil {
			read = 1
		}
		if i != nil && i.Err != nil {
			return nil, c.broken(i)
		}
		if i != nil && (start == "" || i.Key >= sel.prefix+start) {
			ok, err := sel.match(i)
			if err != nil {
				return nil, err
			}
			if ok {
				p.items = append(p.items, i)
			}
		}
		return p, nil
	}
	r := store.Range{Prefix: sel.prefix, From: sel.prefix + start}
	if limit > 0 {
		r.Take = limit + 1
	}
	if sel.all && snap.InMemory() {
		n, err := snap.Count(ctx, store.Range{Prefix: sel.prefix})
		if err != nil {
			return nil, err
		}
		if p.of = n; limit == 0 {
			p.items = make([]*store.Item, 0, n)
		}
	}
	more := false
	var broken *store.Item
	var failed error
	err := sel.ascend(ctx, snap, r, func(i *store.Item) bool {
		if more = limit > 0 && len(p.items) == limit; more {
			return false // the next page checks whether this item is selected
		}
		read++
		if i.Err != nil {
			broken = i
			return false
		}
		ok, err := sel.match(i)
		if failed = err; ok {
			p.items = append(p.items, i)
		}
		return err == nil
	})
	if broken != nil && c.e.UnsafeDelete {
		failed = c.allCorrupt(func(yield func(*store.Item) bool) error { return sel.ascend(ctx, snap, r, yield) })
	} else if broken != nil {
		failed = c.broken(broken)
	}
	if err = cmp.Or(failed, err); err != nil {
		return nil, err
	}
	if more {
		last := p.items[len(p.items)-1]
		p.meta.Continue = encodeContinue(strings.TrimPrefix(last.Key, sel.prefix)+"\x00", snap.Rev)
		if sel.all {
			r.From = last.Key + "\x00"
			n, err := snap.Count(ctx, r)
			if err != nil {
				return nil, err
			}
			p.meta.RemainingItemCount = &n
		}
	}
	return p, nil
}

// broken is the error of a list that has an item which cannot be decrypted:
// what is left out silently would look deleted.
func (c *call) broken(i *store.Item) error {
	return apierrors.NewInternalError(fmt.Errorf("unable to transform key %q: %w", c.view.Shown(i.Key), i.Err))
}

// snapshot returns the snapshot for a list and the key to begin at, relative to
// the namespace.
func (c *call) snapshot(ctx context.Context, o *internalversion.ListOptions) (*store.Snapshot, string, error) {
	if o.Continue != "" {
		return c.continued(ctx, o)
	}
	if rev, ok, err := c.moment(ctx, o.ResourceVersion); ok || err != nil {
		if err != nil {
			return nil, "", err
		}
		s, err := c.view.SnapshotBeyond(ctx, rev)
		return s, "", err
	}
	rev, err := parseRev(o.ResourceVersion)
	if err != nil {
		return nil, "", apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
	}
	exact := o.ResourceVersionMatch == metav1.ResourceVersionMatchExact ||
		o.ResourceVersionMatch == "" && o.Limit > 0 && rev > 0
	if rev > 0 {
		if err := c.waitFor(ctx, rev); err != nil {
			return nil, "", err
		}
	} else if o.ResourceVersion == "" {
		if err := c.view.Fresh(ctx); err != nil {
			return nil, "", err
		}
	}
	if exact && rev > 0 {
		s, err := c.view.SnapshotAt(ctx, rev)
		if errors.Is(err, store.ErrFuture) {
			err = tooLargeRevision(rev, c.view.Store().Revision())
		}
		return s, "", err
	}
	s, err := c.present(ctx, o)
	return s, "", err
}

// present returns the objects that there are, or of them only those of the node, say, that options require.
func (c *call) present(ctx context.Context, o *internalversion.ListOptions) (*store.Snapshot, error) {
	if values := c.triggers(termsOf(o.FieldSelector)); values != nil {
		return c.view.Share(ctx, values...)
	}
	return c.view.Snapshot(ctx)
}

// continued resumes a list where a page ended, at the revision of the first
// page as long as that is available.
func (c *call) continued(ctx context.Context, o *internalversion.ListOptions) (*store.Snapshot, string, error) {
	start, rev, err := decodeContinue(o.Continue)
	if err != nil {
		return nil, "", apierrors.NewBadRequest(fmt.Sprintf("invalid continue token: %v", err))
	}
	if o.ResourceVersion != "" && o.ResourceVersion != "0" {
		return nil, "", apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
	}
	if rev <= 0 {
		// The token has no revision, because it was compacted: the rest is read
		// at the newest one.
		if err := c.view.Fresh(ctx); err != nil {
			return nil, "", err
		}
		s, err := c.view.Snapshot(ctx)
		return s, start, err
	}
	s, err := c.snapshotAt(ctx, rev)
	if errors.Is(err, store.ErrFuture) {
		// Another server may have made the page; wait for its revision.
		if err := c.waitFor(ctx, rev); err != nil {
			return nil, "", err
		}
		s, err = c.snapshotAt(ctx, rev)
	}
	return s, start, err
}

// continueExpired is the answer to a continue token whose revision is
// compacted. It has another token, to go on from key start at the newest
// revision.
func continueExpired(start string) error {
	gone := apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result. " +
		"You can start a new list without the continue parameter, or use the continue token in this response to retrieve " +
		"the remainder of the results. Continuing with the provided token results in an inconsistent list.")
	gone.ErrStatus.ListMeta.Continue = encodeContinue(start, -1)
	return gone
}

// continueToken is the content of a continue parameter, the same as
// kube-apiserver's.
type continueToken struct {
	APIVersion      string `json:"v"`
	ResourceVersion int64  `json:"rv"`
	StartKey        string `json:"start"`
}

const continueVersion = "meta.k8s.io/v1"

func encodeContinue(start string, rev int64) string {
	b, err := json.Marshal(continueToken{continueVersion, rev, start})
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// decodeContinue reads a token and checks that its key cannot be outside of the
// list's keys.
func decodeContinue(s string) (start string, rev int64, err error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return "", 0, fmt.Errorf("continue key is not valid: %w", err)
	}
	var t continueToken
	if err := json.Unmarshal(b, &t); err != nil {
		return "", 0, fmt.Errorf("continue key is not valid: %w", err)
	}
	switch {
	case t.APIVersion != continueVersion:
		return "", 0, fmt.Errorf("token is of unknown version %q", t.APIVersion)
	case t.ResourceVersion == 0:
		return "", 0, errors.New("token has no resource version")
	case t.StartKey == "":
		return "", 0, errors.New("token has no start key")
	}
	for _, part := range strings.Split(t.StartKey, "/") {
		if part == ".." || part == "." {
			return "", 0, errors.New("token has an invalid start key")
		}
	}
	start = strings.TrimPrefix(t.StartKey, "/")
	if start == "" || start[0] == '/' {
		return "", 0, errors.New("token has an invalid start key")
	}
	return start, t.ResourceVersion, nil
}

// expired is the answer to a revision that is compacted.
func expired() error {
	return apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
}

// virtualRev stands for the revision in a continue token of a virtual resource, which has none.
const virtualRev = 1

// listVirtual answers a list of a virtual resource.
func (c *call) listVirtual(out output, o *internalversion.ListOptions) error {
	if err := c.refuseForComputed(); err != nil {
		return err
	}
	var meta metav1.ListMeta
	if c.R.Revision != nil {
		meta.ResourceVersion = c.R.Revision()
	}
	selects, err := c.selectsVirtual(o)
	if err != nil {
		return err
	}
	p, ctx := Page{Limit: o.Limit, Selects: selects, Selector: o.FieldSelector}, c.req.Context()
	if o.Continue != "" {
		if p.After, _, err = decodeContinue(o.Continue); err != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("invalid continue token: %v", err))
		}
	}
	objs, err := c.R.List(ctx, p)
	if err != nil {
		return err
	}
	kept, n := []Object{}, 0
	for obj := range objs {
		if err := ended(ctx, n); err != nil {
			return err
		}
		n++
		if !selects(obj) {
			continue
		}
		if p.Limit > 0 && int64(len(kept)) == p.Limit {
			meta.Continue = encodeContinue(kept[len(kept)-1].GetName(), virtualRev)
			break
		}
		kept = append(kept, obj)
	}
	defer c.answers().End()
	return c.writeObjects(out, kept, meta)
}

// selectsVirtual returns what says whether the selectors of a list or watch match an object of a virtual resource.
func (c *call) selectsVirtual(o *internalversion.ListOptions) (func(Object) bool, error) {
	plain, terms, err := c.R.Select(o.FieldSelector)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return func(obj Object) bool {
		if o.LabelSelector != nil && !o.LabelSelector.Matches(labelSet(obj)) {
			return false
		}
		for _, holds := range terms {
			if !holds(obj) {
				return false
			}
		}
		if plain == nil || plain.Empty() {
			return true
		}
		if c.R.Fields == nil {
			return plain.Matches(objectFields{obj})
		}
		set := c.R.Fields(obj)
		set["metadata.name"], set["metadata.namespace"] = obj.GetName(), obj.GetNamespace()
		return plain.Matches(set)
	}, nil
}
