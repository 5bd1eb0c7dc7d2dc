package engine

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/kanzen-io/kanzen/internal/request/extensions"
	"github.com/kanzen-io/kanzen/internal/store"
)

// fieldTerm is one requirement of a field selector: the field has one of some values, or none of them. A field that is not set has the
// empty value.
type fieldTerm struct {
	field  string
	not    bool
	values []string // sorted
}

func (t *fieldTerm) matches(value string) bool {
	_, has := slices.BinarySearch(t.values, value)
	return has != t.not
}

// String is the term as a selector has it.
func (t *fieldTerm) String() string {
	values := make([]string, len(t.values))
	for n, value := range t.values {
		values[n] = fields.EscapeValue(value)
	}
	operator := "in"
	if t.not {
		operator = "notin"
	}
	return fmt.Sprintf("%s %s (%s)", t.field, operator, strings.Join(values, ","))
}

// fieldTerms is a field selector; all of its terms must hold. As a fields.Selector it has operators that others do not have.
type fieldTerms []fieldTerm

var _ fields.Selector = fieldTerms(nil)

// termsOf returns the terms of any selector.
func termsOf(s fields.Selector) fieldTerms {
	if terms, ok := s.(fieldTerms); ok || s == nil {
		return terms
	}
	var terms fieldTerms
	for _, r := range s.Requirements() {
		terms = append(terms, fieldTerm{r.Field, r.Operator == selection.NotEquals, []string{r.Value}})
	}
	return terms
}

// oneOf returns the values of which a field must have one; nil: any may do.
func (ts fieldTerms) oneOf(field string) []string {
	for _, t := range ts {
		if t.field == field && !t.not {
			return t.values
		}
	}
	return nil
}

// Matches is part of fields.Selector.
func (ts fieldTerms) Matches(f fields.Fields) bool {
	return !slices.ContainsFunc(ts, func(t fieldTerm) bool { return !t.matches(f.Get(t.field)) })
}

// Empty is part of fields.Selector.
func (ts fieldTerms) Empty() bool { return len(ts) == 0 }

// RequiresExactMatch is part of fields.Selector.
func (ts fieldTerms) RequiresExactMatch(field string) (value string, found bool) {
	if values := ts.oneOf(field); len(values) == 1 {
		return values[0], true
	}
	return "", false
}

// Transform is part of fields.Selector.
func (ts fieldTerms) Transform(change fields.TransformFunc) (fields.Selector, error) {
	out := make(fieldTerms, len(ts))
	for n, t := range ts {
		out[n] = fieldTerm{not: t.not}
		for _, value := range t.values {
			field, value, err := change(t.field, value)
			if err != nil {
				return nil, err
			}
			out[n].field, out[n].values = field, append(out[n].values, value)
		}
		slices.Sort(out[n].values)
	}
	return out, nil
}

// Requirements is part of fields.Selector. It leaves out what it cannot say; ask termsOf.
func (ts fieldTerms) Requirements() (out fields.Requirements) {
	for _, t := range ts {
		switch {
		case t.not:
			for _, value := range t.values {
				out = append(out, fields.Requirement{Field: t.field, Operator: selection.NotEquals, Value: value})
			}
		case len(t.values) == 1:
			out = append(out, fields.Requirement{Field: t.field, Operator: selection.Equals, Value: t.values[0]})
		}
	}
	return out
}

// String is part of fields.Selector.
func (ts fieldTerms) String() string {
	texts := make([]string, len(ts))
	for n := range ts {
		texts[n] = ts[n].String()
	}
	return strings.Join(texts, ",")
}

// DeepCopySelector is part of fields.Selector. Terms are never changed.
func (ts fieldTerms) DeepCopySelector() fields.Selector { return ts }

const fieldName = `[A-Za-z][A-Za-z0-9._/-]*`

var (
	setTerm    = regexp.MustCompile(`^\s*(` + fieldName + `)\s+(in|notin)\s*\(([^()]*)\)\s*(?:,|$)`)
	existsTerm = regexp.MustCompile(`^\s*(?:!\s*(` + fieldName + `)|(` + fieldName + `)\s+exists)\s*(?:,|$)`)
	plainTerm  = regexp.MustCompile(`^((?:[^,\\]|\\.)*\\?)(?:,|$)`)
)

// maxFieldValues bounds the values that a field selector may have.
const maxFieldValues = 1000

// moreSelector takes the field selector out of a query, if it is one that kube-apiserver does not know, with in, notin, exists or !.
// Otherwise it returns nil, and kube-apiserver's rules are for the whole. A field by itself stays an error, as it is there: it is more likely a
// slip, and deletecollection takes selectors too.
func (c *call) moreSelector(query url.Values) (fields.Selector, error) {
	text := query.Get("fieldSelector")
	if text == "" || !c.e.Extensions.Has(extensions.Selectors) {
		return nil, nil
	}
	if _, err := fields.ParseSelector(text); err == nil {
		return nil, nil
	}
	terms, err := parseFieldTerms(text)
	if err != nil && !strings.Contains(text, "(") {
		return nil, nil
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("fieldSelector: %v", err))
	}
	query.Del("fieldSelector")
	return terms, nil
}

// parseFieldTerms reads a selector that may have the terms "field in (a,b)", "field notin (a,b)", "field exists" and "!field" besides those
// that kube-apiserver knows.
func parseFieldTerms(text string) (fieldTerms, error) {
	terms, values := fieldTerms{}, 0
	for rest := text; rest != ""; {
		var found fieldTerm
		if m := setTerm.FindStringSubmatch(rest); m != nil {
			found, rest = fieldTerm{field: m[1], not: m[2] == "notin"}, rest[len(m[0]):]
			for value := range strings.SplitSeq(m[3], ",") {
				value, err := fields.UnescapeValue(strings.TrimSpace(value))
				if err != nil {
					return nil, err
				}
				found.values = append(found.values, value)
			}
			slices.Sort(found.values)
			found.values = slices.Compact(found.values)
		} else if m := existsTerm.FindStringSubmatch(rest); m != nil {
			found, rest = fieldTerm{field: m[1] + m[2], not: m[1] == "", values: []string{""}}, rest[len(m[0]):]
		} else {
			m := plainTerm.FindStringSubmatch(rest)
			if m == nil {
				return nil, fmt.Errorf("invalid selector: '%s'; can't understand '%s'", text, rest)
			}
			rest = rest[len(m[0]):]
			plain, err := fields.ParseSelector(m[1])
			if err != nil {
				return nil, err
			}
			terms = append(terms, termsOf(plain)...)
			continue
		}
		if values += len(found.values); values > maxFieldValues {
			return nil, fmt.Errorf("there may be %d values", maxFieldValues)
		}
		terms = append(terms, found)
	}
	return terms, nil
}

// triggers returns the values of which a selector requires one of the resource's trigger field; nil: it requires none, or may match
// objects that have none.
func (ep *Endpoint) triggers(terms fieldTerms) []string {
	if ep.R.Trigger == "" {
		return nil
	}
	values := terms.oneOf(ep.R.Trigger)
	if slices.Contains(values, "") {
		return nil
	}
	return values
}

// matches says whether an item's fields match a selector. Name and namespace
// are taken from its key, the others from the resource. The others are read
// once, however many terms there are.
func (ep *Endpoint) matches(ctx context.Context, i *store.Item, terms fieldTerms) (bool, error) {
	var read fields.Set
	for n := range terms {
		t := &terms[n]
		var got string
		switch t.field {
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
			got = read[t.field]
		}
		if !t.matches(got) {
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

// orderBy returns the order of a resource's objects by one of its selectable fields.
func (ep *Endpoint) orderBy(field string) store.Order {
	o := store.Order{Name: field, Value: func(i *store.Item) string {
		set, err := ep.fields(context.Background(), i) // never asks anybody: see ordersBy
		if err != nil {
			return store.Unreadable
		}
		return store.OrderValue(set[field])
	}}
	if ep.R.Codec != nil {
		o.Of = ep // the fields differ by version
	}
	return o
}

// ordersBy reports whether objects can be ordered by a selectable field. It can be read anywhere, unless another server has to convert
// the objects.
func (ep *Endpoint) ordersBy() bool {
	_, remote := ep.R.Codec.(BatchCodec)
	return ep.R.Fields != nil && !remote
}
