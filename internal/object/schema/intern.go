package schema

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	apiservercel "k8s.io/apiserver/pkg/cel"
)

// digest identifies the content of a node.
type digest [sha256.Size]byte

// intern returns the shared node with n's content, after interning n's parts. It also gives rules their programs, which
// are identified by the content of their schema.
func (c *compiler) intern(n *node) *node {
	if c.interned == nil {
		c.interned = map[digest]*node{}
	}
	out, _ := c.canonical(n)
	return out
}

func (c *compiler) canonical(n *node) (*node, digest) {
	text := []byte{byte(n.types)}
	one := func(sub **node) {
		if *sub == nil {
			text = append(text, 0)
			return
		}
		var d digest
		*sub, d = c.canonical(*sub)
		text = append(append(text, 1), d[:]...)
	}
	text = appendText(text, n.typeName)
	text = binary.AppendUvarint(text, uint64(n.flags))
	text = binary.AppendUvarint(text, uint64(len(n.props)))
	for i := range n.props {
		text = appendText(text, n.props[i].name)
		one(&n.props[i].node)
	}
	one(&n.items)
	one(&n.extra)
	text = appendTexts(appendTexts(text, n.required), n.keys)
	text = appendValue(text, n.def)
	text = n.checks.append(text)
	if k := n.combos; k != nil {
		for _, list := range [][]*node{k.anyOf, k.oneOf, k.allOf} {
			text = binary.AppendUvarint(text, uint64(len(list)))
			for i := range list {
				one(&list[i])
			}
		}
		one(&k.not)
	}
	for _, r := range n.rules {
		text = r.append(text)
	}
	d := digest(sha256.Sum256(text))
	if same := c.interned[d]; same != nil {
		return same, d
	}
	c.interned[d] = n
	for _, r := range n.rules {
		r.bind(c.cache, d, n)
	}
	return n, d
}

// finish sets the flags of n that depend on its parts.
func (n *node) finish() {
	if n.def != nil {
		n.flags |= hasDefaults
	}
	if n.is(listSet | listMap) {
		n.flags |= hasLists
	}
	if n.is(embedded) {
		n.flags |= hasEmbedded
	}
	if len(n.rules) > 0 {
		n.flags |= hasRules
	}
	if !n.hasType() {
		n.flags |= unreal
	}
	for _, p := range n.props {
		n.flags |= p.flags & (below &^ hasRules)
		if p.is(hasRules) && n.shows(p) {
			n.flags |= hasRules
		}
	}
	if n.extra != nil {
		n.flags |= n.extra.flags & below
	}
	if n.items != nil {
		n.flags |= n.items.flags & below
	}
}

// hasType reports whether expressions can see values of n; see common.SchemaDeclType.
func (n *node) hasType() bool {
	if n.is(intOrString) {
		return true
	}
	switch n.types {
	case isObject:
		return n.extra == nil || !n.extra.is(unreal)
	case isArray:
		return n.items != nil && !n.items.is(unreal)
	case isString, isBoolean, isNumber, isInteger:
		return true
	}
	return false
}

// shows reports whether expressions can see a property of n. A property whose name they cannot express still has its
// own rules.
func (n *node) shows(p property) bool {
	if p.is(unreal) {
		return false
	}
	return n.types == isObject && n.extra == nil || !expressible(p.name)
}

// expressible reports whether expressions can name a property.
func expressible(name string) bool {
	_, ok := apiservercel.Escape(name)
	return ok
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendTexts(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = appendText(b, s)
	}
	return b
}

func (k *checks) append(b []byte) []byte {
	if k == nil {
		return append(b, 0)
	}
	b = append(b, 1)
	for _, f := range []*float64{k.min, k.max, k.multipleOf} {
		if f == nil {
			b = append(b, 0)
			continue
		}
		b = binary.BigEndian.AppendUint64(append(b, 1), math.Float64bits(*f))
	}
	for _, i := range []*int64{k.minLength, k.maxLength, k.minItems, k.maxItems, k.minProperties, k.maxProperties} {
		if i == nil {
			b = append(b, 0)
			continue
		}
		b = binary.AppendVarint(append(b, 1), *i)
	}
	b = appendValue(appendValue(b, k.exclusiveMin), k.exclusiveMax)
	b = appendText(b, k.format)
	if k.pattern != nil {
		b = appendText(append(b, 1), k.pattern.text)
	}
	return appendValue(b, k.enum)
}

// appendValue appends a canonical encoding of a JSON value: equal values, and no others, have the same encoding.
func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, 'n')
	case string:
		return appendText(append(b, 's'), v)
	case bool:
		if v {
			return append(b, 't')
		}
		return append(b, 'f')
	case int64:
		return binary.AppendVarint(append(b, 'i'), v)
	case float64:
		if v == 0 {
			v = 0 // merges positive and negative zero
		}
		return binary.BigEndian.AppendUint64(append(b, 'd'), math.Float64bits(v))
	case []any:
		b = binary.AppendUvarint(append(b, 'l'), uint64(len(v)))
		for _, item := range v {
			b = appendValue(b, item)
		}
		return b
	case map[string]any:
		b = binary.AppendUvarint(append(b, 'm'), uint64(len(v)))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			b = appendValue(appendText(b, name), v[name])
		}
		return b
	}
	return append(b, fmt.Sprintf("%T%v", v, v)...)
}
