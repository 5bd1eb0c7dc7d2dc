package engine

import (
	"encoding/json"
	"reflect"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kanzen-io/kanzen/internal/object/apitype"
	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
)

// This file refuses objects with a quantity that takes too long to parse or to compare (apitype.BoundQuantity), before a library
// reads it. Only the fields that lead to quantities are looked at.

// boundQuantities refuses such quantities in the JSON, or with proto the protobuf encoding, of a value of the type of into. The
// decoder reports what is malformed.
func boundQuantities(data []byte, into any, proto bool) error {
	t := apitype.Of(reflect.TypeOf(into))
	if proto {
		return protoQuantities(data, t)
	}
	return jsonQuantities(data, t)
}

// boundQuantitiesIn is boundQuantities for decoded JSON.
func boundQuantitiesIn(v any, into any) error {
	return valueQuantities(v, apitype.Of(reflect.TypeOf(into)))
}

func boundQuantity(text string) error {
	if err := apitype.BoundQuantity(text); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// held returns the type of a member of JSON, of a list's items if there is no name; nil: there is no quantity in it.
func held(t *apitype.Type, name string) *apitype.Type {
	if t.Kind == apitype.Struct {
		f := t.Member(name)
		if f == nil {
			return nil
		}
		t = f.Type
	} else {
		t = t.Elem
	}
	if t == nil || t.Holds&apitype.HoldsQuantity == 0 {
		return nil
	}
	return t.Bare()
}

func jsonQuantities(data []byte, t *apitype.Type) (err error) {
	if t = t.Bare(); t.Holds&apitype.HoldsQuantity == 0 {
		return nil
	}
	if t.Kind == apitype.Quantity {
		text := string(data)
		if data[0] == '"' && json.Unmarshal(data, &text) != nil {
			return nil
		}
		return boundQuantity(text)
	}
	jsonobject.Members(data, func(name, value []byte) {
		key := string(name)
		if strings.Contains(key, `\`) {
			_ = json.Unmarshal([]byte(`"`+key+`"`), &key)
		}
		if of := held(t, key); of != nil && len(value) > 0 && err == nil {
			err = jsonQuantities(value, of)
		}
	})
	return err
}

func valueQuantities(v any, t *apitype.Type) error {
	if t = t.Bare(); t.Holds&apitype.HoldsQuantity == 0 {
		return nil
	}
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if of := held(t, name); of != nil {
				if err := valueQuantities(member, of); err != nil {
					return err
				}
			}
		}
	case []any:
		for _, item := range v {
			if of := held(t, ""); of != nil {
				if err := valueQuantities(item, of); err != nil {
					return err
				}
			}
		}
	case string:
		if t.Kind == apitype.Quantity {
			return boundQuantity(v)
		}
	}
	return nil
}

// protoQuantities reads a message. Quantities are messages of one text, the entries of maps are messages of a key and a value.
func protoQuantities(data []byte, t *apitype.Type) error {
	for t.Kind == apitype.Pointer || t.Kind == apitype.List {
		t = t.Elem
	}
	if t.Holds&apitype.HoldsQuantity == 0 {
		return nil
	}
	for len(data) > 0 {
		number, wire, n := protowire.ConsumeTag(data)
		if n < 0 {
			return nil
		}
		size := protowire.ConsumeFieldValue(number, wire, data[n:])
		if size < 0 {
			return nil
		}
		value, _ := protowire.ConsumeBytes(data[n:])
		data = data[n+size:]
		if wire != protowire.BytesType {
			continue
		}
		var err error
		at := t.Numbered(uint64(number))
		switch {
		case t.Kind == apitype.Quantity && number == 1:
			err = boundQuantity(string(value))
		case t.Kind == apitype.Struct && at >= 0:
			err = protoQuantities(value, t.Fields[at].Type)
		case t.Elem != nil && number == 2:
			err = protoQuantities(value, t.Elem)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
