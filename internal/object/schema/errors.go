package schema

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	openapierrors "k8s.io/kube-openapi/pkg/validation/errors"
)

var errTooMuchWork = errors.New("matching a text of this length would take too long")

const (
	// maxErrors and maxErrorBytes bound the errors reported for one object.
	maxErrors     = 10_000
	maxErrorBytes = 16 << 20
)

// tooManyErrors is the last error of a truncated report.
const tooManyErrors = "too many errors, the rest of the object was not checked"

// in is the location of values in validators' errors.
const in = "body"

// FieldError converts the error of a schema's validator about the value at path.
func FieldError(err error, path *field.Path) *field.Error {
	v, ok := err.(*openapierrors.Validation)
	if !ok {
		return field.Invalid(path, "", err.Error())
	}
	if v.Name != "" && v.Name != "." {
		path = path.Child(strings.TrimPrefix(v.Name, "."))
	}
	number := func(n any) int {
		if i, ok := n.(int64); ok {
			return int(i)
		}
		return -1
	}
	value := v.Value
	if value == nil {
		value = ""
	}
	switch v.Code() {
	case openapierrors.RequiredFailCode:
		return field.Required(path, "")
	case openapierrors.EnumFailCode:
		return field.NotSupported(path, v.Value, texts(v.Values))
	case openapierrors.TooLongFailCode:
		return field.TooLong(path, "", number(v.Valid))
	case openapierrors.MaxItemsFailCode, openapierrors.TooManyPropertiesCode:
		return field.TooMany(path, number(v.Value), number(v.Valid))
	case openapierrors.InvalidTypeCode:
		return field.TypeInvalid(path, value, v.Error())
	}
	return field.Invalid(path, value, v.Error())
}

func texts(values []any) []string {
	out := make([]string, 0, len(values))
	for _, v := range values {
		s, ok := v.(string)
		if !ok {
			b, _ := json.Marshal(v) // cannot fail: it came from JSON
			s = string(b)
		}
		out = append(out, s)
	}
	return out
}

// fieldErrors converts a validator's errors to field errors below path, without duplicates.
func fieldErrors(found []error, path *field.Path) field.ErrorList {
	said := make(map[string]bool, len(found))
	out := make(field.ErrorList, 0, len(found))
	for _, err := range found {
		if text := err.Error(); !said[text] {
			said[text] = true
			out = append(out, FieldError(err, path))
		}
	}
	sortByField(out)
	return out
}

// collector collects errors, at most maxErrors.
type collector struct{ errs field.ErrorList }

func (c *collector) add(errs ...*field.Error) {
	if room := maxErrors - len(c.errs); len(errs) > room {
		if room <= 0 {
			return
		}
		errs = append(errs[:room-1:room-1], field.Invalid(nil, field.OmitValueType{}, tooManyErrors))
	}
	c.errs = append(c.errs, errs...)
}

// full reports whether there is no room for more errors.
func (c *collector) full() bool { return len(c.errs) >= maxErrors }

func sortByField(list field.ErrorList) {
	slices.SortStableFunc(list, func(a, b *field.Error) int { return cmp.Compare(a.Field, b.Field) })
}
