package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/request/extensions"
	"github.com/kanzen-io/kanzen/internal/request/scope"
	"github.com/kanzen-io/kanzen/internal/store"
)

// This file narrows lists and watches to what their user may see (visible), and to some namespaces (namespaces, namespaceSelector).
// What they are narrowed to is a set of keys that changes with rights and with the labels of namespaces.

// Rights tell what of a resource the user of a request may see. Their methods are safe for concurrent use.
type Rights interface {
	// Scope returns the objects for which the request would be allowed if it was made for each alone. Within are the only namespaces
	// of interest, nil: all; all returns those there are.
	Scope(ctx context.Context, i *request.Info, namespaced bool, within []string, all func(context.Context) ([]string, error)) (scope.Set, error)
	// Version is another number after each change of the user's rights, and Next a channel that is closed with the next one.
	Version(ctx context.Context) uint64
	Next(ctx context.Context) <-chan struct{}
	// Steady reports that rights do not change without that.
	Steady() bool
	// Reach returns once Scope reflects the log up to a revision.
	Reach(ctx context.Context, log *store.Store, rev int64) error
	// ChangedAt is the revision of the newest change of the user's rights that is reflected, or a later one.
	ChangedAt(ctx context.Context) (int64, error)
	// Follows returns why the user's rights cannot be followed along a log. Reach was called before.
	Follows(ctx context.Context, log *store.Store) error
}

const (
	// maxNamespaces bounds the namespaces that a request may name.
	maxNamespaces = 1000
	// unsteadyFor is how long the rights that an authorizer has told hold for a watch if it does not tell of changes.
	unsteadyFor = time.Second
)

// narrowing is what a list or watch is narrowed to. It is for one goroutine.
type narrowing struct {
	*call
	within   []string // the namespaces that the request names, sorted; nil: none
	selector *store.LabelFilter

	set scope.Set
	// version and labelled are of which rights and namespaces a set was made last; made is when.
	version  uint64
	labelled int64
	made     time.Time
}

// asked returns a parameter of an extension; empty if the request has none, or the extension is off.
func (c *call) asked(extension, parameter string) string {
	if q := c.req.URL.RawQuery; q == "" || !strings.Contains(q, parameter+"=") || !c.e.Extensions.Has(extension) {
		return ""
	}
	return c.req.URL.Query().Get(parameter)
}

// narrowing returns what the request is narrowed to, which is not known yet; nil if it is not narrowed.
func (c *call) narrowing() (*narrowing, error) {
	visible := c.asked(extensions.Visible, "visible")
	names, selector := c.asked(extensions.Namespaces, "namespaces"), c.asked(extensions.Namespaces, "namespaceSelector")
	switch {
	case visible == "" && names == "" && selector == "":
		return nil, c.info.Refusal
	case c.info.Verb == "deletecollection":
		return nil, apierrors.NewBadRequest("visible, namespaces and namespaceSelector are for lists and watches")
	case visible != "" && visible != "true" && visible != "false":
		return nil, apierrors.NewBadRequest(fmt.Sprintf("visible: %q is neither true nor false", visible))
	case names == "" && selector == "":
	case !c.R.Namespaced:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("namespaces, namespaceSelector: %s are in no namespace", c.R.Plural))
	case c.namespace != "":
		return nil, apierrors.NewBadRequest("namespaces, namespaceSelector: the path names a namespace already")
	}
	n := &narrowing{call: c}
	if names != "" {
		n.within = slices.Compact(slices.Sorted(strings.SplitSeq(names, ",")))
		if len(n.within) > maxNamespaces {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("namespaces: there may be %d", maxNamespaces))
		}
		for _, name := range n.within {
			if errs := validation.IsDNS1123Label(name); len(errs) > 0 {
				return nil, apierrors.NewBadRequest(fmt.Sprintf("namespaces: %q: %s", name, strings.Join(errs, "; ")))
			}
		}
	} else if c.namespace != "" {
		n.within = []string{c.namespace}
	}
	if selector != "" {
		s, err := labels.Parse(selector)
		if err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("namespaceSelector: %v", err))
		}
		filter := store.NewLabelFilter(s)
		n.selector = &filter
	}
	if c.info.Refusal != nil && !c.info.Narrowed() {
		return nil, c.info.Refusal
	}
	return n, nil
}

// byRights reports whether the set depends on rights. One that only names namespaces does not if the user may have all of them.
func (n *narrowing) byRights() bool { return n.info.Visible || n.info.Refusal != nil }

// byNamespaces reports whether the set depends on which namespaces there are.
func (n *narrowing) byNamespaces() bool {
	return n.selector != nil || n.info.Visible && !n.e.Rights.Steady()
}

// reach returns once what the set depends on is known up to a revision of the view's log.
func (n *narrowing) reach(ctx context.Context, rev int64) error {
	if n.byRights() {
		if err := n.e.Rights.Reach(ctx, n.view.Store(), rev); err != nil {
			return err
		}
	}
	if !n.byNamespaces() {
		return nil
	}
	of := n.e.Namespaces()
	if of.Store() != n.view.Store() {
		return of.Fresh(ctx)
	}
	return of.Store().WaitFor(ctx, rev)
}

// stale reports whether the set that was made last may not be true any more.
func (n *narrowing) stale(ctx context.Context) (bool, error) {
	if n.byRights() && (n.version != n.e.Rights.Version(ctx) || !n.e.Rights.Steady() && n.e.Clock.Since(n.made) > unsteadyFor) {
		return true, nil
	}
	if !n.byNamespaces() {
		return false, nil
	}
	rev, err := n.e.Namespaces().Changed(ctx)
	return rev != n.labelled, err
}

// make makes the set anew.
func (n *narrowing) make(ctx context.Context) (set scope.Set, err error) {
	// Versions are read first: what changes while the set is made makes it stale.
	n.made = n.e.Clock.Now()
	if n.byRights() {
		n.version = n.e.Rights.Version(ctx)
	}
	if n.byNamespaces() {
		if n.labelled, err = n.e.Namespaces().Changed(ctx); err != nil {
			return scope.Set{}, err
		}
	}
	within := n.within
	if n.selector != nil {
		if within, err = n.selected(ctx); err != nil {
			return scope.Set{}, err
		}
	}
	set = scope.All()
	if n.info.Visible {
		set, err = n.e.Rights.Scope(ctx, n.info, n.R.Namespaced, within, n.allNamespaces)
	} else {
		err = n.permitted(ctx)
	}
	if err != nil {
		return scope.Set{}, err
	}
	if within != nil && n.R.Namespaced {
		set = set.Within(within)
	}
	return set, nil
}

// permitted returns why the user may not have all of the namespaces that he names.
func (n *narrowing) permitted(ctx context.Context) error {
	if n.info.Refusal == nil {
		return nil
	}
	for _, namespace := range n.within {
		one := *n.info
		one.Namespace = namespace
		if err := n.e.Authorize(ctx, &one); err != nil {
			return err
		}
	}
	return nil
}

// selected returns those of the namespaces in question that the selector matches.
func (n *narrowing) selected(ctx context.Context) ([]string, error) {
	names, of := []string{}, n.e.Namespaces()
	return names, n.eachNamespace(ctx, func(i *store.Item) error {
		if n.within != nil {
			if _, named := slices.BinarySearch(n.within, i.Key); !named {
				return nil
			}
		}
		ok, err := of.MatchLabels(i, *n.selector)
		if ok {
			names = append(names, i.Key)
		}
		return err
	})
}

func (n *narrowing) allNamespaces(ctx context.Context) (names []string, err error) {
	err = n.eachNamespace(ctx, func(i *store.Item) error {
		names = append(names, i.Key)
		return nil
	})
	return names, err
}

func (n *narrowing) eachNamespace(ctx context.Context, each func(*store.Item) error) error {
	snap, err := n.e.Namespaces().Snapshot(ctx)
	if err != nil {
		return err
	}
	var failed error
	err = snap.Ascend(ctx, store.Range{}, func(i *store.Item) bool {
		failed = each(i)
		return failed == nil
	})
	if failed != nil {
		return failed
	}
	return err
}

// has reports whether an item is in the set.
func (n *narrowing) has(i *store.Item) bool { return n.set.Has(i.Namespace(), i.Name()) }

// keys are some that a narrowed request is about: all that begin with key, or only that one.
type keys struct {
	key string
	one bool
}

// spans returns the ranges of keys of a set, in order: whatever else there is, it is not looked at. Only names that are in every
// namespace have one range with others in it.
func (n *narrowing) spans(set scope.Set) []keys {
	var out []keys
	add := func(prefix string, names scope.Names) {
		if names.All {
			out = append(out, keys{key: prefix})
			return
		}
		for name := range names.Some {
			out = append(out, keys{prefix + name, true})
		}
	}
	switch {
	case !n.R.Namespaced:
		add("", set.Everywhere)
	case n.namespace != "":
		add(n.namespace+"/", set.Of(n.namespace))
	case !set.Everywhere.Empty():
		return []keys{{}}
	default:
		for namespace, names := range set.In {
			add(namespace+"/", names)
		}
	}
	slices.SortFunc(out, func(a, b keys) int { return strings.Compare(a.key, b.key) })
	return out
}

// ascend calls yield for the items of a snapshot that are in a set and a range, in order of their keys, until it returns false.
func (n *narrowing) ascend(ctx context.Context, snap *store.Snapshot, set scope.Set, r store.Range, yield func(*store.Item) bool) error {
	goesOn := true
	each := func(i *store.Item) bool {
		goesOn = !set.Has(i.Namespace(), i.Name()) || yield(i)
		return goesOn
	}
	for _, s := range n.spans(set) {
		if s.one {
			if s.key < r.From {
				continue
			}
			i, err := snap.Get(ctx, s.key)
			if err != nil {
				return err
			}
			if i != nil {
				each(i)
			}
		} else if err := snap.Ascend(ctx, store.Range{Prefix: s.key, From: r.From, Take: r.Take}, each); err != nil {
			return err
		}
		if !goesOn {
			return nil
		}
	}
	return nil
}
