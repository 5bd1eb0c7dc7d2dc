package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
)

// maxExponent is how many digits the exponent of a quantity may have. To compare
// 1e999999999 with anything, apimachinery computes all of its digits, which takes
// hours; some such texts take as long to parse.
const maxExponent = 3

// maxDigits bounds the length of a quantity in bytes: parsing one takes time and
// memory by the square of its digits.
const maxDigits = 10_000

// boundQuantities refuses data if one of its quantities takes too long to parse or
// to compare. data is the JSON, or with proto the protobuf encoding, of a value of
// the type of into. Most data is only scanned. The fields are checked one by one
// only if some text looks like such a quantity; the text of a label may look like
// one, too ("12e4567", the hash of a commit).
func boundQuantities(data []byte, into any, proto bool) error {
	if !suspectQuantity(data, proto) || !holdsQuantity(reflect.TypeOf(into), map[reflect.Type]bool{}) {
		return nil
	}
	if proto {
		return protoQuantities(data, reflect.TypeOf(into))
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return jsonQuantities(d, reflect.TypeOf(into))
}

// suspectQuantity says whether some text in data looks like a large number.
func suspectQuantity(data []byte, proto bool) bool {
	return longNumber(data) || largeExponent(data) || !proto && escapedDigit(data)
}

// boundQuantitiesIn is boundQuantities for decoded JSON.
func boundQuantitiesIn(v any, into any) error {
	if !suspectText(v) || !holdsQuantity(reflect.TypeOf(into), map[reflect.Type]bool{}) {
		return nil
	}
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return boundQuantities(data, into, false)
}

// suspectText says whether a text in decoded JSON looks like a large number.
func suspectText(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			if suspectText(member) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, suspectText)
	case string:
		return len(v) > maxDigits || largeExponent([]byte(v))
	}
	return false
}

var quantityType = reflect.TypeFor[resource.Quantity]()

// boundQuantity refuses the text of one quantity.
func boundQuantity(text string) error {
	if len(text) > maxDigits {
		return apierrors.NewBadRequest(fmt.Sprintf("a number of more than %d digits is too long for a quantity", maxDigits))
	}
	if at := strings.LastIndexAny(text, "eE"); at >= 0 && len(strings.TrimLeft(text[at+1:], "+-")) > maxExponent {
		return apierrors.NewBadRequest(fmt.Sprintf("the exponent of %.40s is too large for a quantity", text))
	}
	return nil
}

// jsonQuantities reads one JSON value and checks its quantities, found by the Go
// type that it will be decoded into (nil: there are none). It checks all members of
// the same name, as the decoder reads them all. The decoder reports malformed JSON.
func jsonQuantities(d *json.Decoder, t reflect.Type) error {
	token, err := d.Token()
	if err != nil {
		return nil
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch v := token.(type) {
	case string:
		if t == quantityType {
			return boundQuantity(v)
		}
	case json.Number:
		if t == quantityType {
			return boundQuantity(v.String())
		}
	case json.Delim:
		for d.More() {
			member := elemType(t)
			if v == '{' {
				name, err := d.Token()
				if err != nil {
					return nil
				}
				if key, ok := name.(string); ok && t != nil && t.Kind() == reflect.Struct {
					member = memberType(t, key)
				}
			}
			if err := jsonQuantities(d, member); err != nil {
				return err
			}
		}
		_, _ = d.Token() // the end of it
	}
	return nil
}

// elemType is the type of the items of a list or the members of a map.
func elemType(t reflect.Type) reflect.Type {
	if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array || t.Kind() == reflect.Map) {
		return t.Elem()
	}
	return nil
}

// memberType is the type of the field that has a name in JSON, nil if there is none.
func memberType(t reflect.Type, name string) reflect.Type {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == name {
			return f.Type
		}
		if tag == "" && (f.Anonymous || strings.Contains(rest, "inline")) {
			in := f.Type
			if in.Kind() == reflect.Pointer {
				in = in.Elem()
			}
			if in.Kind() == reflect.Struct {
				if found := memberType(in, name); found != nil {
					return found
				}
			}
		}
	}
	return nil
}

// protoQuantities does the same for the protobuf encoding of a message, by the
// field numbers in the tags of the Go type.
func protoQuantities(data []byte, t reflect.Type) error {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 {
		t = t.Elem()
	}
	fields := map[protowire.Number]reflect.Type{}
	switch {
	case t == quantityType:
		fields[1] = reflect.TypeFor[string]()
	case t.Kind() == reflect.Map: // an entry: its key is no message
		fields[2] = t.Elem()
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			if parts := strings.Split(t.Field(i).Tag.Get("protobuf"), ","); len(parts) > 1 && parts[0] == "bytes" {
				if n, err := strconv.Atoi(parts[1]); err == nil {
					fields[protowire.Number(n)] = t.Field(i).Type
				}
			}
		}
	default:
		return nil
	}
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return nil // the decoder reports the error
		}
		data = data[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, data); n < 0 {
				return nil
			}
			data = data[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(data)
		if n < 0 {
			return nil
		}
		data = data[n:]
		field, ok := fields[number]
		var err error
		switch {
		case !ok:
		case t == quantityType:
			err = boundQuantity(string(value))
		default:
			err = protoQuantities(value, field)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// longNumber says that data has a run of maxDigits digits; runs from half that
// length on may also be found.
func longNumber(data []byte) bool {
	for at := maxDigits; at < len(data); at += maxDigits / 2 {
		if run := data[at-maxDigits/2 : at]; isDigit(run[0]) && !bytes.ContainsFunc(run, func(r rune) bool { return (r < '0' || r > '9') && r != '.' }) {
			return true
		}
	}
	return false
}

// largeExponent says that a text in data ends as a number with a large exponent
// does.
func largeExponent(data []byte) bool {
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
			return true
		}
	}
	return false
}

// alone says that data[begin:end] is a whole text and not part of a word, such as
// the hash of an image. In protobuf a quantity is a message with one text: a tag,
// the length and the text.
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

// escapedDigit says that JSON has an escape that may stand for a part of a number.
// Encoders do not escape those characters.
func escapedDigit(data []byte) bool {
	for {
		at := bytes.Index(data, []byte(`\u00`))
		if at < 0 || at+6 > len(data) {
			return false
		}
		if c, err := strconv.ParseUint(string(data[at+4:at+6]), 16, 8); err == nil && strings.ContainsRune("0123456789eE.+-", rune(c)) {
			return true
		}
		data = data[at+6:]
	}
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// holdsQuantity says that values of a type may hold a quantity.
func holdsQuantity(t reflect.Type, seen map[reflect.Type]bool) bool {
	if t == nil || seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return holdsQuantity(t.Elem(), seen)
	case reflect.Struct:
		if t == quantityType {
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
