package jsonpatch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	library "gopkg.in/evanphx/json-patch.v4"

	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
)

// kind is the known kind of a node.
type kind byte

const (
	raw kind = iota // not expanded, or neither object nor list
	object
	list
)

// node is a value in the document; nil is null. Values are bytes of the document
// or of the patch until an operation reaches into them.
type node struct {
	raw    []byte
	kind   kind
	fields map[string]*node
	items  []*node
}

// expand decodes the members of a value, if it has any.
func (p *patcher) expand(n *node) error {
	if n.kind != raw {
		return nil
	}
	if err := p.charge(len(n.raw)); err != nil {
		return err
	}
	switch first(n.raw) {
	case '{':
		n.kind, n.fields = object, map[string]*node{}
	case '[':
		n.kind = list
	default:
		return nil
	}
	jsonobject.Members(n.raw, func(name, value []byte) {
		v := &node{raw: value}
		if first(value) == 'n' {
			v = nil
		}
		if n.kind == list {
			n.items = append(n.items, v)
			return
		}
		n.fields[unquote(name)] = v
	})
	n.raw = nil
	return nil
}

// first returns the first byte of a value.
func first(value []byte) byte {
	for _, c := range value {
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c
		}
	}
	return 0
}

// unquote returns the name of a field from its JSON string.
func unquote(name []byte) string {
	for _, c := range name {
		if c == '\\' || c >= 0x80 { // or not UTF-8
			var s string
			if json.Unmarshal(slices.Concat([]byte{'"'}, name, []byte{'"'}), &s) == nil {
				return s
			}
			break
		}
	}
	return string(name)
}

// find returns the object or list that contains the value at a path, and its
// key there; nil if there is none.
func (p *patcher) find(path string) (*node, string, error) {
	_, rest, ok := strings.Cut(path, "/")
	if !ok {
		return nil, "", nil
	}
	in := p.root
	for {
		name, deeper, more := strings.Cut(rest, "/")
		if name = unescape(name); !more {
			return in, name, nil
		}
		next, err := in.get(name)
		if err != nil || next == nil {
			return nil, "", nil
		}
		if err := p.charge(1); err != nil {
			return nil, "", err
		}
		if err := p.expand(next); err != nil {
			return nil, "", err
		}
		if next.kind == raw {
			return nil, "", nil
		}
		in, rest = next, deeper
	}
}

// unescape decodes the escapes of a part of a path, in the order of RFC 6901.
func unescape(part string) string {
	if !strings.Contains(part, "~") {
		return part
	}
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
}

// get returns a member; a field that is missing is null.
func (n *node) get(key string) (*node, error) {
	if n.kind == object {
		return n.fields[key], nil
	}
	at, err := n.index(key)
	if err != nil {
		return nil, err
	}
	return n.items[at], nil
}

// index returns the index of an existing item.
func (n *node) index(key string) (int, error) {
	at, err := strconv.Atoi(key)
	if err != nil {
		return 0, err
	}
	return place(at, len(n.items))
}

// place resolves an index, which may count from the end.
func place(at, size int) (int, error) {
	if at >= size || at < -size {
		//lint:ignore ST1005 these are the words that clients know
		return 0, fmt.Errorf("Unable to access invalid index: %d: %w", at, library.ErrInvalidIndex)
	}
	if at < 0 {
		at += size
	}
	return at, nil
}

// insert adds a member; to a list, before the item that has its index.
func (p *patcher) insert(n *node, key string, v *node) error {
	if n.kind == object {
		n.fields[key] = v
		return nil
	}
	if key == "-" {
		n.items = append(n.items, v)
		return nil
	}
	at, err := strconv.Atoi(key)
	if err != nil {
		return fmt.Errorf("value was not a proper array index: '%s': %w", key, err)
	}
	if at, err = place(at, len(n.items)+1); err != nil {
		return err
	}
	if err := p.charge(len(n.items) - at); err != nil {
		return err
	}
	n.items = slices.Insert(n.items, at, v)
	return nil
}

// drop removes a member.
func (p *patcher) drop(n *node, key string) error {
	if n.kind == object {
		if _, ok := n.fields[key]; !ok {
			//lint:ignore ST1005 these are the words that clients know
			return fmt.Errorf("Unable to remove nonexistent key: %s: %w", key, library.ErrMissing)
		}
		delete(n.fields, key)
		return nil
	}
	at, err := n.index(key)
	if err != nil {
		return err
	}
	if err := p.charge(len(n.items) - at); err != nil {
		return err
	}
	n.items = slices.Delete(n.items, at, at+1)
	return nil
}

// equal compares values; it compares numbers and texts in their written form.
func (p *patcher) equal(a, b *node) (bool, error) {
	if a == nil || b == nil {
		return a == b, nil
	}
	for _, n := range []*node{a, b} {
		if err := p.expand(n); err != nil {
			return false, err
		}
	}
	if a.kind != b.kind || len(a.fields) != len(b.fields) || len(a.items) != len(b.items) {
		return false, nil
	}
	if err := p.charge(1 + len(a.fields) + len(a.items)); err != nil {
		return false, err
	}
	for name, v := range a.fields {
		other, ok := b.fields[name]
		if !ok {
			return false, nil
		}
		if same, err := p.equal(v, other); !same {
			return false, err
		}
	}
	for at, v := range a.items {
		if same, err := p.equal(v, b.items[at]); !same {
			return false, err
		}
	}
	return bytes.Equal(bytes.TrimSpace(a.raw), bytes.TrimSpace(b.raw)), nil
}

// append writes the value.
func (n *node) append(out []byte, depth int) ([]byte, error) {
	switch {
	case n == nil:
		return append(out, "null"...), nil
	case depth > maxDepth:
		return nil, fmt.Errorf("the patch nests values deeper than %d", maxDepth)
	case n.kind == raw:
		return append(out, n.raw...), nil
	}
	var err error
	if n.kind == list {
		out = append(out, '[')
		for at, v := range n.items {
			if at > 0 {
				out = append(out, ',')
			}
			if out, err = v.append(out, depth+1); err != nil {
				return nil, err
			}
		}
		return append(out, ']'), nil
	}
	out = append(out, '{')
	for at, name := range slices.Sorted(maps.Keys(n.fields)) {
		if at > 0 {
			out = append(out, ',')
		}
		quoted, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		if out, err = n.fields[name].append(append(append(out, quoted...), ':'), depth+1); err != nil {
			return nil, err
		}
	}
	return append(out, '}'), nil
}
