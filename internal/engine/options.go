package engine

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	internalscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	internalvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/store"
)

// decodeQuery reads options from the query.
func (c *call) decodeQuery(into runtime.Object) error {
	if c.req.URL.RawQuery == "" {
		return nil
	}
	return decodeParameters(c.req.URL.Query(), into)
}

func decodeParameters(query url.Values, into runtime.Object) error {
	if err := internalscheme.ParameterCodec.DecodeParameters(query, metav1.SchemeGroupVersion, into); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// invalidOptions makes the answer to options that break a rule.
func invalidOptions(kind string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
}

// listOptions reads and checks the options of list, watch and deletecollection.
func (c *call) listOptions() (*internalversion.ListOptions, error) {
	o, query := &internalversion.ListOptions{}, c.req.URL.Query()
	more, err := c.moreSelector(query)
	if err != nil {
		return nil, err
	}
	if err := decodeParameters(query, o); err != nil {
		return nil, err
	}
	if more != nil {
		o.FieldSelector = more
	}
	if c.info.Verb == "watch" && !c.info.VerbInPath {
		o.Watch = true
	}
	internalversion.SetListOptionsDefaults(o, !c.e.NoWatchLists)
	if err := invalidOptions("ListOptions", internalvalidation.ValidateListOptions(o, !c.e.NoWatchLists)); err != nil {
		return nil, err
	}
	if c.info.Verb == "watch" {
		o.Watch = true // only now what is a watch by its path: it has the options of a list
	}
	if o.FieldSelector != nil {
		sel, err := o.FieldSelector.Transform(c.fieldLabel)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		o.FieldSelector = sel
	}
	if c.name != "" {
		if o.FieldSelector != nil && !o.FieldSelector.Empty() {
			if n, ok := o.FieldSelector.RequiresExactMatch(metav1.ObjectNameField); !ok || n != c.name {
				return nil, apierrors.NewBadRequest("fieldSelector metadata.name doesn't match requested name")
			}
		} else {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, c.name)
		}
	}
	return o, nil
}

// fieldLabel checks a field that a selector names.
func (ep *Endpoint) fieldLabel(label, value string) (string, string, error) {
	if label == metav1.ObjectNameField || label == "metadata.namespace" && ep.R.Namespaced && ep.V.FieldLabels == nil {
		return label, value, nil
	}
	if key, ok := ep.R.FieldAliases[label]; ok {
		label = key
	}
	if field, value, ok := strings.Cut(ep.R.FieldAliases[label+"="+value], "="); ok {
		return field, value, nil
	}
	if term, ok := ep.R.Terms[label]; ok {
		_, err := term(value)
		return label, value, err
	}
	if names := ep.V.FieldLabels; names != nil {
		if key, ok := names[label]; ok {
			return key, value, nil
		}
	} else if ep.R.Fields != nil {
		if _, ok := ep.R.Fields(ep.hub.New())[label]; ok {
			return label, value, nil
		}
	}
	if ep.R.Fields == nil && label == "metadata.namespace" {
		return label, value, nil
	}
	return "", "", ep.unknownField(label)
}

// unknownField says that objects cannot be selected by a field, in the words that kube-apiserver has for the kind.
func (ep *Endpoint) unknownField(label string) error {
	switch {
	case ep.R.UnknownField != nil:
		return ep.R.UnknownField(label)
	case ep.typed && ep.R.Fields == nil && ep.V.FieldLabels == nil:
		return OnlyMetadata(label)
	}
	return fmt.Errorf("field label not supported: %s", label)
}

// OnlyMetadata says that objects of a kind are only selected by their name and namespace.
func OnlyMetadata(label string) error {
	return fmt.Errorf(`%q is not a known field selector: only "metadata.name", "metadata.namespace"`, label)
}

// selected says which items a list or watch is about.
type selected struct {
	view   *store.View
	prefix string // of keys
	name   string // of the only object that can match; "" if there can be several
	match  func(i *store.Item) (bool, error)
	// otherwise is match without what the request is narrowed to.
	otherwise func(i *store.Item) (bool, error)
	shard     *shard // nil for all
	all       bool   // there are no selectors
	// triggers are the values of which one is required of the resource's trigger field; nil: none is.
	triggers []string
	indexes  indexes
	// keys are those of the only objects that can match, sorted; nil: they are not known.
	keys   []string
	narrow *narrowing // nil: to nothing
	sort   *sorting   // nil: in the order of their keys
}

// selects returns what options select. The result is valid until ctx ends.
func (c *call) selects(ctx context.Context, o *internalversion.ListOptions) (selected, error) {
	s := c.selectsFields(ctx, o)
	var err error
	if s.shard, err = c.shardOf(o); err != nil {
		return s, err
	}
	if s.shard != nil {
		holds, match := s.shard.holds(), s.match
		s.all, s.match = false, func(i *store.Item) (bool, error) {
			if ok, err := holds(i); !ok {
				return false, err
			}
			return match(i)
		}
	}
	if s.sort, err = c.sorting(); err != nil {
		return s, err
	}
	if s.narrow, err = c.narrowing(); s.narrow == nil {
		return s, err
	}
	narrow, match := s.narrow, s.match
	s.otherwise = match
	s.all, s.match = false, func(i *store.Item) (bool, error) {
		if !narrow.has(i) {
			return false, nil
		}
		return match(i)
	}
	return s, nil
}

// selectsFields returns what the selectors of fields and labels select.
func (c *call) selectsFields(ctx context.Context, o *internalversion.ListOptions) selected {
	s := selected{view: c.view, all: everything(o.LabelSelector, o.FieldSelector)}
	if c.namespace != "" {
		s.prefix = c.namespace + "/"
	}
	if s.all {
		s.match = func(*store.Item) (bool, error) { return true, nil }
		return s
	}
	terms := termsOf(o.FieldSelector)
	s.name, _ = terms.RequiresExactMatch(metav1.ObjectNameField)
	s.indexes.field = c.fieldIndex(terms)
	if s.triggers = c.triggers(terms); s.triggers == nil { // otherwise they find fewer
		s.indexes.labels = c.labelIndexes(o.LabelSelector)
	}
	if c.namesOne() {
		for _, name := range terms.oneOf(metav1.ObjectNameField) {
			s.keys = append(s.keys, s.prefix+name)
		}
	}
	byLabels := store.NewLabelFilter(o.LabelSelector)
	s.match = func(i *store.Item) (bool, error) {
		if ok, err := c.matches(ctx, i, terms); !ok {
			return false, err
		}
		return c.view.MatchLabels(i, byLabels)
	}
	return s
}

// namesOne says that a name names at most one object of those that are requested, whose key follows from it.
func (c *call) namesOne() bool { return !c.R.Namesakes && (c.namespace != "" || !c.R.Namespaced) }

// ascend calls yield for the items of a range that may be selected, in order of their keys, until it returns false.
func (s *selected) ascend(ctx context.Context, snap *store.Snapshot, r store.Range, yield func(*store.Item) bool) error {
	switch {
	case s.narrow != nil:
		return s.narrow.ascend(ctx, snap, s.narrow.set, r, yield)
	case s.keys != nil:
		return s.ascendKeys(ctx, snap, r, yield)
	case snap.InMemory():
		return s.indexes.ascend(ctx, s.view, snap, r, yield)
	}
	return snap.Ascend(ctx, r, yield)
}

// ascendKeys is ascend for few objects, each of which is looked up.
func (s *selected) ascendKeys(ctx context.Context, snap *store.Snapshot, r store.Range, yield func(*store.Item) bool) error {
	for _, key := range s.keys {
		if key < r.From {
			continue
		}
		i, err := snap.Get(ctx, key)
		if err != nil {
			return err
		}
		if i != nil && !yield(i) {
			return nil
		}
	}
	return nil
}
