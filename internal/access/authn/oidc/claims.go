package oidc

import (
	"encoding/json"
	"errors"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// claims are a token's claims by name, as raw JSON.
type claims map[string]json.RawMessage

var errNoClaim = errors.New("claim not present")

func (c claims) read(name string, into any) error {
	raw, ok := c[name]
	if !ok {
		return errNoClaim
	}
	return json.Unmarshal(raw, into)
}

// value returns the claims as CEL expressions see them.
func (c claims) value() ref.Val {
	all := make(map[string]any, len(c))
	for name, raw := range c {
		var v any
		if err := json.Unmarshal(raw, &v); err == nil { // cannot fail: it was parsed as a part of the whole
			all[name] = v
		}
	}
	return nativeValue(all)
}

// stringOrList is a claim that may be a string or a list of strings.
type stringOrList []string

// UnmarshalJSON is part of json.Unmarshaler.
func (s *stringOrList) UnmarshalJSON(data []byte) error {
	var list []string
	if json.Unmarshal(data, &list) == nil {
		*s = list
		return nil
	}
	var one string
	if err := json.Unmarshal(data, &one); err != nil {
		return err
	}
	*s = []string{one}
	return nil
}

// nativeValue returns a CEL value whose fields, at every depth, can also be selected by escaped names (a.b__dot__c).
func nativeValue(v any) ref.Val { return unescaping(types.DefaultTypeAdapter.NativeToValue(v)) }

func unescaping(v ref.Val) ref.Val {
	switch v := v.(type) {
	case traits.Mapper:
		return &mapper{v}
	case traits.Lister:
		return &lister{v}
	}
	return v
}

type mapper struct{ traits.Mapper }

// Find is part of traits.Mapper.
func (m *mapper) Find(key ref.Val) (ref.Val, bool) {
	if name, ok := key.(types.String); ok {
		if plain, ok := apiservercel.Unescape(string(name)); ok {
			key = types.String(plain)
		}
	}
	v, ok := m.Mapper.Find(key)
	return unescaping(v), ok
}

// Get is part of traits.Mapper.
func (m *mapper) Get(key ref.Val) ref.Val {
	v, ok := m.Find(key)
	if !ok {
		return types.NewErr("no such key: %v", key)
	}
	return v
}

type lister struct{ traits.Lister }

// Get is part of traits.Lister.
func (l *lister) Get(index ref.Val) ref.Val { return unescaping(l.Lister.Get(index)) }
