package jsonobject

import (
	"encoding/base64"
	"reflect"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/object/apitype"
)

// scalar decodes a value that is no string in Go and is not null.
func (d *decoder) scalar(t *apitype.Type, v reflect.Value) bool {
	switch t.Kind {
	case apitype.Bool:
		v.SetBool(d.next() == 't')
		return d.word("true") || d.word("false")
	case apitype.Bytes, apitype.Time:
		if d.next() != '"' {
			return false
		}
		s, ok := d.string()
		return ok && readText(t, v, s)
	}
	d.next()
	text, float, ok := d.numeral()
	return ok && (!float || t.Kind == apitype.Float) && readNumber(t, v, text)
}

func readText(t *apitype.Type, v reflect.Value, s string) bool {
	if t.Kind == apitype.Bytes {
		b, err := base64.StdEncoding.DecodeString(s)
		v.SetBytes(b)
		return err == nil
	}
	parsed, err := time.Parse(time.RFC3339, s)
	v.Addr().Interface().(*metav1.Time).Time = parsed.Local()
	return err == nil
}

func readNumber(t *apitype.Type, v reflect.Value, text string) bool {
	switch t.Kind {
	case apitype.Int:
		n, err := strconv.ParseInt(text, 10, t.Bits)
		v.SetInt(n)
		return err == nil
	case apitype.Uint:
		n, err := strconv.ParseUint(text, 10, t.Bits)
		v.SetUint(n)
		return err == nil
	}
	n, err := strconv.ParseFloat(text, t.Bits)
	v.SetFloat(n)
	return err == nil
}
