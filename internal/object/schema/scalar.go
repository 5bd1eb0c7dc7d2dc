package schema

import (
	"fmt"
	"math"
	"reflect"
	"unicode/utf8"

	"github.com/go-openapi/swag/conv"
	openapierrors "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

func (n *node) format() string {
	if n.checks == nil {
		return ""
	}
	return n.checks.format
}

// isOfType reports whether v has n's type, and adds an error if not.
func (c *validator) isOfType(n *node, v any) bool {
	var t typeSet
	var format string
	floatInt, isText := false, false
	switch v := v.(type) {
	case string:
		t, isText = isString, true
	case map[string]any:
		t = isObject
	case []any:
		t, isText = isArray, true // as in kube-openapi's validator
	case bool:
		t = isBoolean
	case int64:
		t, format = isInteger, "int64"
		if n.types&isNumber != 0 {
			return true
		}
	case float64:
		t, format = isNumber, "float64"
		floatInt = n.types&isInteger != 0 && conv.IsFloat64AJSONInteger(v)
	}
	if n.types&t != 0 || floatInt {
		return true
	}
	want := n.format()
	if want != "" && !isText && format != want {
		c.add(func(at string) error { return openapierrors.InvalidType(at, in, want, format) })
		return false
	}
	if want != "" && isText && n.types&(isNumber|isInteger) == 0 {
		return true // kube-openapi's validator leaves it to the format, even a list
	}
	c.add(func(at string) error { return openapierrors.InvalidType(at, in, n.typeName, t.String()) })
	return false
}

func (t typeSet) String() string {
	for i, name := range typeNames {
		if t == 1<<i {
			return name
		}
	}
	return ""
}

// text returns a func that makes the first error of a string, or nil.
func (k *checks) text(s string) func(at string) error {
	if k.maxLength != nil && int64(len(s)) > *k.maxLength && int64(utf8.RuneCountInString(s)) > *k.maxLength {
		return func(at string) error { return openapierrors.TooLong(at, in, *k.maxLength, s) }
	}
	if k.minLength != nil && int64(utf8.RuneCountInString(s)) < *k.minLength {
		return func(at string) error { return openapierrors.TooShort(at, in, *k.minLength, s) }
	}
	if k.pattern == nil {
		return nil
	}
	if ok, err := k.pattern.match(s); !ok {
		want := k.pattern.text
		switch err {
		case nil:
		case errTooMuchWork:
			want = fmt.Sprintf("%s, but %s", want, err)
		default:
			want = fmt.Sprintf("%s, but pattern is invalid: %s", want, err)
		}
		return func(at string) error { return openapierrors.FailedPattern(at, in, want, s) }
	}
	return nil
}

// numbers returns the type and format of a schema with one type, if they concern numbers.
func (n *node) numbers() (of, format string) {
	switch n.types {
	case isInteger:
		return "integer", n.format()
	case isNumber:
		return "number", n.format()
	}
	return "", ""
}

// number reports whether a number is within n's bounds, and adds an error if not. Numbers that are plainly valid skip
// the library.
func (c *validator) number(n *node, v any) bool {
	of, format := n.numbers()
	k := n.checks
	if k == nil {
		k = &checks{}
	}
	ok := plainlyInRange(v, of, format)
	for _, b := range [...]*float64{k.multipleOf, k.min, k.max} {
		ok = ok && (b == nil || plainlyInRange(*b, of, format))
	}
	if ok && (k.multipleOf == nil || validate.MultipleOfNativeType("", in, v, *k.multipleOf) == nil) &&
		(k.min == nil || validate.MinimumNativeType("", in, v, *k.min, k.exclusiveMin) == nil) &&
		(k.max == nil || validate.MaximumNativeType("", in, v, *k.max, k.exclusiveMax) == nil) {
		return true
	}
	at := ""
	if !c.quiet {
		at = c.at()
	}
	found := k.numberErrors(v, of, format, at)
	for _, err := range found {
		c.add(func(string) error { return err })
	}
	return len(found) == 0
}

// numberErrors returns the errors of a number. A bound that is itself not a value of the type is an error, and is then
// compared as a float.
func (k *checks) numberErrors(v any, of, format, at string) (found []error) {
	inRange := func(v any, name string) bool {
		err := validate.IsValueValidAgainstRange(v, of, format, name, at)
		if err != nil {
			found = append(found, err)
		}
		return err == nil
	}
	var err *openapierrors.Validation
	note := func() {
		if err != nil { // a nil pointer in an error would not be nil
			found = append(found, err)
		}
	}
	inRange(v, "Checked")
	if m := k.multipleOf; m != nil {
		if inRange(*m, "MultipleOf") {
			err = validate.MultipleOfNativeType(at, in, v, *m)
		} else {
			err = validate.MultipleOf(at, in, asFloat(v), *m)
		}
		note()
	}
	if m := k.min; m != nil {
		if inRange(*m, "Minimum boundary") {
			err = validate.MinimumNativeType(at, in, v, *m, k.exclusiveMin)
		} else {
			err = validate.Minimum(at, in, asFloat(v), *m, k.exclusiveMin)
		}
		note()
	}
	if m := k.max; m != nil {
		if inRange(*m, "Maximum boundary") {
			err = validate.MaximumNativeType(at, in, v, *m, k.exclusiveMax)
		} else {
			err = validate.Maximum(at, in, asFloat(v), *m, k.exclusiveMax)
		}
		note()
	}
	return found
}

// plainlyInRange reports whether a number is surely a value of a type and format. If it returns false, the number may
// still be one.
func plainlyInRange(v any, of, format string) bool {
	f, isFloat := v.(float64)
	switch {
	case of != "integer":
		return format != "float" || !isFloat || math.Abs(f) < math.MaxFloat32
	case isFloat:
		return f == math.Trunc(f) && math.Abs(f) < math.MaxInt32
	case format == "int32":
		i := v.(int64)
		return i >= math.MinInt32 && i <= math.MaxInt32
	}
	return true
}

func asFloat(v any) float64 {
	if i, ok := v.(int64); ok {
		return float64(i)
	}
	return v.(float64)
}

// manyNames is the number of strings from which an enum is a map.
const manyNames = 16

func longEnum(enum []any) map[string]struct{} {
	if len(enum) < manyNames {
		return nil
	}
	names := make(map[string]struct{}, len(enum))
	for _, e := range enum {
		if s, ok := e.(string); ok {
			names[s] = struct{}{}
		}
	}
	return names
}

// inEnum reports whether v is in the enum. As in kube-openapi, numbers match after conversion in Go's way: 1.5 is in
// [1].
func (k *checks) inEnum(v any) bool {
	if s, ok := v.(string); ok {
		if k.names != nil {
			_, ok := k.names[s]
			return ok
		}
		for _, e := range k.enum {
			if e == any(s) {
				return true
			}
		}
		return false
	}
	for _, e := range k.enum {
		if e == nil {
			continue
		}
		to := reflect.TypeOf(e)
		from := reflect.ValueOf(v)
		if from.Type().ConvertibleTo(to) && reflect.DeepEqual(from.Convert(to).Interface(), e) {
			return true
		}
	}
	return false
}
