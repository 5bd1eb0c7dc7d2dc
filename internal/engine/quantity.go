package engine

import (
	"bytes"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
)

// maxExponent is how many digits the exponent of a quantity may have. To compare
// 1e999999999 with anything, apimachinery makes all of its digits, which takes
// hours; some such texts take that even to be read.
const maxExponent = 3

// maxDigits is how long a quantity may be: to read one takes time and memory by
// the square of its digits.
const maxDigits = 10_000

// longNumber says that there are that many digits, or half as many, in one place.
func longNumber(data []byte) bool {
	for at := maxDigits; at < len(data); at += maxDigits / 2 {
		if run := data[at-maxDigits/2 : at]; isDigit(run[0]) && !bytes.ContainsFunc(run, func(r rune) bool { return (r < '0' || r > '9') && r != '.' }) {
			return true
		}
	}
	return false
}

// boundQuantities refuses data that something is to be decoded from if it holds
// quantities where data holds what may be one with a very large exponent.
func boundQuantities(data []byte, into any) error {
	if longNumber(data) && holdsQuantity(reflect.TypeOf(into), map[reflect.Type]bool{}) {
		return apierrors.NewBadRequest(fmt.Sprintf("a number of more than %d digits is too long for a quantity", maxDigits))
	}
	if found := largeExponent(data); found != "" && holdsQuantity(reflect.TypeOf(into), map[reflect.Type]bool{}) {
		return apierrors.NewBadRequest(fmt.Sprintf("the exponent of %s is too large for a quantity", found))
	}
	return nil
}

// boundQuantitiesIn does the same for an untyped object: the texts in it need
// not be written as they are in its JSON.
func boundQuantitiesIn(v any, into any) error {
	if !holdsQuantity(reflect.TypeOf(into), map[reflect.Type]bool{}) {
		return nil
	}
	return eachText(v, func(text string) error { return boundQuantities([]byte(text), into) })
}

func eachText(v any, f func(string) error) error {
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			if err := eachText(member, f); err != nil {
				return err
			}
		}
	case []any:
		for _, item := range v {
			if err := eachText(item, f); err != nil {
				return err
			}
		}
	case string:
		if len(v) > maxExponent {
			return f(v)
		}
	}
	return nil
}

// largeExponent returns a number in JSON or protobuf, quoted or not, that is
// written with a large exponent.
func largeExponent(data []byte) string {
	for at := 1; at+1 < len(data); at++ {
		if c := data[at]; c != 'e' && c != 'E' || !isDigit(data[at-1]) && data[at-1] != '.' {
			continue
		}
		end := at + 1
		if data[end] == '-' || data[end] == '+' {
			end++
		}
		digits := end
		for end < len(data) && isDigit(data[end]) {
			end++
		}
		if end-digits <= maxExponent {
			continue
		}
		begin := at
		for begin > 0 && (isDigit(data[begin-1]) || data[begin-1] == '.') {
			begin--
		}
		if begin > 0 && (data[begin-1] == '-' || data[begin-1] == '+') {
			begin--
		}
		if alone(data, begin, end) {
			return string(data[max(begin, end-40):end])
		}
	}
	return ""
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// alone says that what lies between is a whole value, and no part of a word, as
// of a hash. In protobuf a quantity is a message of one text: a tag, the length
// and the text, whatever comes after it.
func alone(data []byte, begin, end int) bool {
	if begin > 1 && data[begin-2] == 0x0a && int(data[begin-1]) == end-begin {
		return true
	}
	if begin > 1 && data[begin-1] == ':' && isWord(data[begin-2]) {
		return false
	}
	return (begin == 0 || !isWord(data[begin-1])) && (end == len(data) || !isWord(data[end]))
}

func isWord(c byte) bool {
	return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '-' || c == '_' || c == '/' || c == '.'
}

// holdsQuantity says that values of a type may hold a quantity.
func holdsQuantity(t reflect.Type, seen map[reflect.Type]bool) bool {
	if t == nil || seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return holdsQuantity(t.Elem(), seen)
	case reflect.Map:
		return holdsQuantity(t.Elem(), seen)
	case reflect.Struct:
		if t == reflect.TypeFor[resource.Quantity]() {
			return true
		}
		for i := range t.NumField() {
			if holdsQuantity(t.Field(i).Type, seen) {
				return true
			}
		}
	}
	return false
}
