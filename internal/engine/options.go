package engine

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	internalscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	internalvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/store"
)

// decodeQuery reads options from the query.
func (c *call) decodeQuery(into runtime.Object) error {
	if c.req.URL.RawQuery == "" {
		return nil
	}
	if err := internalscheme.ParameterCodec.DecodeParameters(c.req.URL.Query(), metav1.SchemeGroupVersion, into); err != nil {
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
	o := &internalversion.ListOptions{}
	if err := c.decodeQuery(o); err != nil {
		return nil, err
	}
	if c.info.Verb == "watch" && !c.info.VerbInPath {
		o.Watch = true
	}
	internalversion.SetListOptionsDefaults(o, true)
	if err := invalidOptions("ListOptions", internalvalidation.ValidateListOptions(o, true)); err != nil {
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
	prefix string // of keys
	name   string // of the only object that can match; "" if there can be several
	match  func(i *store.Item) (bool, error)
	// otherwise is match without what the request is narrowed to.
	otherwise func(i *store.Item) (bool, error)
	shard     *shard // nil for all
	all       bool   // there are no selectors
	// trigger is the required value of the resource's trigger field.
	trigger string
	narrow  *narrowing // nil: to nothing
	sort    *sorting   // nil: in the order of their keys
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
	s := selected{all: everything(o.LabelSelector, o.FieldSelector)}
	if c.namespace != "" {
		s.prefix = c.namespace + "/"
	}
	if s.all {
		s.match = func(*store.Item) (bool, error) { return true, nil }
		return s
	}
	fieldSel := o.FieldSelector
	if fieldSel == nil {
		fieldSel = fields.Everything()
	}
	s.name, _ = fieldSel.RequiresExactMatch(metav1.ObjectNameField)
	s.trigger = c.trigger(fieldSel)
	wanted := fieldSel.Requirements()
	byLabels := store.NewLabelFilter(o.LabelSelector)
	s.match = func(i *store.Item) (bool, error) {
		if ok, err := c.matches(ctx, i, wanted); !ok {
			return false, err
		}
		return c.view.MatchLabels(i, byLabels)
	}
	return s
}

// trigger returns the value that a selector requires of the resource's trigger
// field, or "".
func (ep *Endpoint) trigger(f fields.Selector) string {
	if ep.R.Trigger == "" || f == nil {
		return ""
	}
	value, _ := f.RequiresExactMatch(ep.R.Trigger)
	return value
}

// matches says whether an item's fields match a selector. Name and namespace
// are taken from its key, the others from the resource. The others are read
// once, however many terms there are.
func (ep *Endpoint) matches(ctx context.Context, i *store.Item, wanted fields.Requirements) (bool, error) {
	var read fields.Set
	for _, r := range wanted {
		var got string
		switch r.Field {
		case metav1.ObjectNameField:
			got = i.Name()
		case "metadata.namespace":
			got = i.Namespace()
		default:
			if read == nil {
				var err error
				if read, err = ep.fields(ctx, i); err != nil {
					return false, err
				}
			}
			got = read[r.Field]
		}
		if (got == r.Value) == (r.Operator == selection.NotEquals) {
			return false, nil
		}
	}
	return true, nil
}

// fields returns the selectable fields of an item except its name and
// namespace. They are cached with the item.
func (ep *Endpoint) fields(ctx context.Context, i *store.Item) (fields.Set, error) {
	if ep.R.Codec == nil {
		return ep.view.Fields(i)
	}
	// The fields differ by version, and all versions share the view.
	return i.Selectable(ep.e.Store.Encodings, &ep.selectable, func(i *store.Item) (fields.Set, error) {
		if err := ctx.Err(); err != nil {
			return nil, err // decoding a large object takes long
		}
		obj, err := ep.Decode(ctx, i)
		if err != nil {
			return nil, err
		}
		return ep.R.Fields(obj), nil
	})
}

// ascend calls yield for the items of a range that may be selected, in order of their keys, until it returns false.
func (s *selected) ascend(ctx context.Context, snap *store.Snapshot, r store.Range, yield func(*store.Item) bool) error {
	if s.narrow == nil {
		return snap.Ascend(ctx, r, yield)
	}
	return s.narrow.ascend(ctx, snap, s.narrow.set, r, yield)
}
