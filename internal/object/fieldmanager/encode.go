package fieldmanager

import (
	"strconv"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// appendSet appends the set as the JSON of a FieldsV1. self says that the object above is a member itself.
func appendSet(b []byte, s set, self bool) []byte {
	b = append(b, '{')
	if self && len(s) > 0 {
		b = append(b, `".":{}`...)
	}
	for i := range s {
		if i > 0 || self {
			b = append(b, ',')
		}
		b = appendElement(b, s[i].elem)
		b = append(b, ':')
		b = appendSet(b, s[i].below, s[i].member)
	}
	return append(b, '}')
}

// appendElement appends the name of a field of that JSON, which itself contains JSON.
func appendElement(b []byte, e element) []byte {
	if !e.plain() {
		return appendOdd(b, e)
	}
	switch e.kind {
	case byField:
		b = append(b, `"f:`...)
		b = append(b, e.name...)
	case byKey:
		b = append(b, `"k:{`...)
		for i, f := range e.key {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, `\"`...)
			b = append(b, f.name...)
			b = append(b, `\":`...)
			b = appendScalar(b, f.value)
		}
		b = append(b, '}')
	case byValue:
		b = append(b, `"v:`...)
		b = appendScalar(b, e.key[0].value)
	case byIndex:
		b = append(b, `"i:`...)
		b = appendScalar(b, e.key[0].value)
	}
	return append(b, '"')
}

func appendScalar(b []byte, s scalar) []byte {
	switch s.kind {
	case isText:
		b = append(b, `\"`...)
		b = append(b, s.text...)
		return append(b, `\"`...)
	case isBoolean:
		return strconv.AppendBool(b, s.n != 0)
	}
	return strconv.AppendInt(b, s.n, 10)
}

// appendOdd lets the library encode an element that needs escapes.
func appendOdd(b []byte, e element) []byte {
	j, err := fieldpath.NewSet(fieldpath.Path{e.library()}).ToJSON()
	if err != nil {
		panic(err) // it is written to memory
	}
	return append(b, j[1:len(j)-len(`:{}}`)]...)
}

func (a element) plain() bool {
	if a.kind == byField {
		return plain(a.name)
	}
	for i := range a.key {
		if !plain(a.key[i].name) || !plain(a.key[i].value.text) {
			return false
		}
	}
	return true
}

// plain reports whether a text is the same in JSON, and in JSON within JSON.
func plain(s string) bool {
	for i := range len(s) {
		if !isPlain(s[i]) {
			return false
		}
	}
	return true
}

func isPlain(c byte) bool {
	switch c {
	case '"', '\\', '<', '>', '&':
		return false
	}
	return 0x20 <= c && c < 0x7f
}
