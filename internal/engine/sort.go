package engine

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
	"github.com/kanzen-io/kanzen/internal/request/extensions"
	"github.com/kanzen-io/kanzen/internal/store"
)

// sorting is the order of a list. Objects of one value are in the order of their keys.
type sorting struct {
	name       string // as it is asked for
	descending bool
	by         store.Order
}

// sorting returns the order that a list asks for; nil: that of the keys.
func (c *call) sorting() (*sorting, error) {
	asked := c.asked(extensions.Sort, "sort")
	if asked == "" {
		return nil, nil
	}
	if c.info.Verb == "deletecollection" {
		return nil, apierrors.NewBadRequest("sort: is for lists")
	}
	path, descending := strings.CutPrefix(asked, "-")
	s := &sorting{name: path, descending: descending, by: store.Order{Name: path}}
	switch path {
	case "metadata.creationTimestamp":
		s.by.Value = createdAt
	case "metadata.name":
		s.by.Value = (*store.Item).Name
	case "metadata.namespace":
		s.by.Value = (*store.Item).Namespace
	default:
		field, _, err := c.fieldLabel(path, "")
		if err != nil || !c.ordersBy() {
			return nil, apierrors.NewBadRequest(fmt.Sprintf(
				"sort: %s cannot be sorted by %q, but by metadata.creationTimestamp, metadata.name, metadata.namespace and, unless a webhook converts them, by what field selectors know", c.R.Plural, path))
		}
		s.by = c.orderBy(field)
	}
	return s, nil
}

// createdAt is when an object was created, as a text in the order of time.
func createdAt(i *store.Item) string {
	value := i.Value()
	seconds := int64(0)
	if isJSON(value) {
		var t metav1.Time
		if json.Unmarshal(jsonobject.Find(value, "metadata", "creationTimestamp"), &t) == nil {
			seconds = t.Unix()
		}
	} else if raw, err := rawOf(value); err == nil {
		seconds = createdIn(raw)
	}
	return time.Unix(seconds, 0).UTC().Format(time.RFC3339) // all of one length
}

// Numbers of fields of ObjectMeta and Time.
const (
	metaCreated = 8
	timeSeconds = 1
)

// createdIn reads the time from an object in protobuf; 0: it has none.
func createdIn(raw []byte) int64 {
	meta, _, err := objectMeta(raw)
	for err == nil && len(meta) > 0 {
		var num int
		var val []byte
		if num, val, meta, err = wireField(meta); err != nil || num != metaCreated {
			continue
		}
		for len(val) > 0 {
			tag, n := binary.Uvarint(val)
			if n <= 0 || tag&7 != 0 {
				return 0
			}
			number, m := binary.Uvarint(val[n:])
			if m <= 0 {
				return 0
			}
			if tag>>3 == timeSeconds {
				return int64(number)
			}
			val = val[n+m:]
		}
	}
	return 0
}

// key is the place of an item in the order.
func (s *sorting) key(i *store.Item) string { return store.OrderKey(s.by.Value(i), i.Key) }

// token and place translate the place after which a page begins, to where a continue token has a key and back.
func (s *sorting) token(i *store.Item) string {
	return s.direction() + base64.RawURLEncoding.EncodeToString([]byte(s.key(i)))
}

func (s *sorting) place(token string) (string, error) {
	if token == "" {
		return "", nil
	}
	rest, ok := strings.CutPrefix(token, s.direction())
	place, err := base64.RawURLEncoding.DecodeString(rest)
	if !ok || err != nil {
		return "", apierrors.NewBadRequest("invalid continue token: it is of another order")
	}
	return string(place), nil
}

// direction begins tokens, so that those of other orders are told apart.
func (s *sorting) direction() string {
	if s.descending {
		return "-" + s.name + ":"
	}
	return s.name + ":"
}

// sorted selects the objects of a list in its order, after the place that a token names.
func (c *call) sorted(ctx context.Context, snap *store.Snapshot, token string, sel selected, o *internalversion.ListOptions) (*page, error) {
	after, err := sel.sort.place(token)
	if err != nil {
		return nil, err
	}
	p := &page{meta: metav1.ListMeta{ResourceVersion: formatRev(snap.Rev)}}
	if sel.shard != nil {
		p.meta.ShardInfo = sel.shard.info
	}
	limit, more, read := int(o.Limit), false, 0
	defer func() { snap.Listed(c.view, read, len(p.items)) }()
	var failed error
	take := func(i *store.Item) bool {
		read++
		if i.Err != nil {
			failed = c.broken(i)
			return false
		}
		ok, err := sel.match(i)
		if failed = err; err != nil || !ok {
			return err == nil
		}
		if more = limit > 0 && len(p.items) == limit; !more {
			p.items = append(p.items, i)
		}
		return !more
	}
	if err := c.inOrder(ctx, snap, after, &sel, take); err != nil || failed != nil {
		return nil, cmp.Or(failed, err)
	}
	if more {
		p.meta.Continue = encodeContinue(sel.sort.token(p.items[limit-1]), snap.Rev)
	}
	return p, nil
}

// notFuture is an error of View.Ordered, unless it says that the view has yet to see a revision: then there is just no order of it.
func notFuture(err error) error {
	if errors.Is(err, store.ErrFuture) {
		return nil
	}
	return err
}

// inOrder calls take for the items that may be selected, in order, until it returns false. All of a view have an order that the view
// keeps, if it has room; few are sorted each time.
func (c *call) inOrder(ctx context.Context, snap *store.Snapshot, after string, sel *selected, take func(*store.Item) bool) error {
	s := sel.sort
	if sel.prefix == "" && sel.narrow == nil && sel.triggers == nil && sel.indexes.field == nil && snap.InMemory() {
		all, err := c.view.Ordered(ctx, snap.Rev, s.by)
		if notFuture(err) != nil {
			return err
		}
		if err == nil && all != nil {
			return all.Each(ctx, after, s.descending, take)
		}
	}
	type placed struct {
		key  string
		item *store.Item
	}
	var some []placed
	err := sel.ascend(ctx, snap, store.Range{Prefix: sel.prefix}, func(i *store.Item) bool {
		key := ""
		if i.Err == nil {
			key = s.key(i)
		}
		if after == "" || key != after && key > after != s.descending {
			some = append(some, placed{key, i})
		}
		return true
	})
	if err != nil {
		return err
	}
	slices.SortFunc(some, func(a, b placed) int {
		if s.descending {
			a, b = b, a
		}
		return strings.Compare(a.key, b.key)
	})
	for n, each := range some {
		if err := ended(ctx, n); err != nil {
			return err
		}
		if !take(each.item) {
			return nil
		}
	}
	return nil
}
