package transcode

import (
	"encoding/binary"
	"slices"

	"github.com/kanzen-io/kanzen/internal/object/apitype"
)

// Cut is fields of a message, by their paths in JSON, and leaves the others out of its protobuf bytes. Fields below a list are those of
// each of its items, and a name below a map is a key of it. The bytes decode to the object that the JSON with the same fields
// (jsonobject.AppendOnly) decodes to. A Cut is not changed after CompileCut and can be shared.
type Cut struct {
	whole  bool
	fields []*Cut          // of a message, by number; nil: left out
	keys   map[string]*Cut // of a map
}

// CompileCut makes the cut of the struct type t. It returns false if a path leads nowhere, or into a type that has a form of its own in JSON.
func CompileCut(t *apitype.Type, paths [][]string) (*Cut, bool) {
	c := &Cut{}
	for _, path := range paths {
		if !c.add(t, path) {
			return nil, false
		}
	}
	return c, true
}

// add adds what is at a path below a value of type t.
func (c *Cut) add(t *apitype.Type, path []string) bool {
	if c.whole {
		return true // and what is below is known to whoever has added that
	}
	if len(path) == 0 {
		*c = Cut{whole: true}
		return true
	}
	for t = t.Bare(); t.Kind == apitype.List; t = t.Elem.Bare() {
	}
	switch t.Kind {
	case apitype.Struct:
		return c.addMember(t, path)
	case apitype.Map, apitype.Strings, apitype.Quantities:
		if c.keys == nil {
			c.keys = map[string]*Cut{}
		}
		below := c.keys[path[0]]
		if below == nil {
			below = &Cut{}
			c.keys[path[0]] = below
		}
		return below.add(t.Elem, path[1:])
	}
	return false
}

// addMember adds a member of a struct. That of an embedded struct is in the message of that struct.
func (c *Cut) addMember(t *apitype.Type, path []string) bool {
	for n := range t.Fields {
		f := &t.Fields[n]
		switch {
		case f.Inline && f.Number == 0 && f.Type.Kind == apitype.Struct && f.Type.Member(path[0]) != nil:
			return true // apiVersion and kind: they are not in the message
		case f.Inline && f.Type.Kind == apitype.Struct && f.Type.Member(path[0]) != nil:
			return c.numbered(f.Number).add(f.Type, path)
		case !f.Inline && f.Key != "" && f.Name == path[0] && f.Number > 0:
			return c.numbered(f.Number).add(f.Type, path[1:])
		}
	}
	return false
}

func (c *Cut) numbered(number int) *Cut {
	if number >= len(c.fields) {
		c.fields = append(c.fields, make([]*Cut, number+1-len(c.fields))...)
	}
	if c.fields[number] == nil {
		c.fields[number] = &Cut{}
	}
	return c.fields[number]
}

// Append appends what is left of a message to dst.
func (c *Cut) Append(dst, raw []byte) ([]byte, error) {
	for at := 0; at < len(raw); {
		tag, n := binary.Uvarint(raw[at:])
		if n <= 0 || tag>>3 == 0 {
			return nil, errUnusual
		}
		from, to, err := value(raw, at+n, int(tag&7))
		if err != nil {
			return nil, err
		}
		var below *Cut
		if tag>>3 < uint64(len(c.fields)) {
			below = c.fields[tag>>3]
		}
		switch {
		case below == nil:
		case below.whole:
			dst = append(dst, raw[at:to]...)
		case tag&7 != wireBytes:
			return nil, errUnusual
		case below.keys != nil:
			dst, err = below.appendEntry(dst, raw[at:to], raw[from:to])
		default:
			dst, err = appendMessage(dst, tag, func(dst []byte) ([]byte, error) { return below.Append(dst, raw[from:to]) })
		}
		if err != nil {
			return nil, err
		}
		at = to
	}
	return dst, nil
}

// Numbers of the fields of a map's entry.
const (
	entryKey   = 1
	entryValue = 2
)

// appendEntry appends an entry of a map if its key is among those of the cut.
func (c *Cut) appendEntry(dst, field, entry []byte) ([]byte, error) {
	key, val := "", []byte(nil)
	for at := 0; at < len(entry); {
		tag, n := binary.Uvarint(entry[at:])
		if n <= 0 {
			return nil, errUnusual
		}
		from, to, err := value(entry, at+n, int(tag&7))
		if err != nil {
			return nil, err
		}
		switch tag {
		case entryKey<<3 | wireBytes:
			key = string(entry[from:to])
		case entryValue<<3 | wireBytes:
			val = entry[from:to]
		}
		at = to
	}
	below := c.keys[key]
	switch {
	case below == nil:
		return dst, nil
	case below.whole:
		return append(dst, field...), nil
	}
	tag, _ := binary.Uvarint(field)
	return appendMessage(dst, tag, func(dst []byte) ([]byte, error) {
		dst = append(binary.AppendUvarint(append(dst, entryKey<<3|wireBytes), uint64(len(key))), key...)
		return appendMessage(dst, entryValue<<3|wireBytes, func(dst []byte) ([]byte, error) { return below.Append(dst, val) })
	})
}

// appendMessage appends a message with its tag and its length, which is known once it is there.
func appendMessage(dst []byte, tag uint64, body func([]byte) ([]byte, error)) ([]byte, error) {
	dst = binary.AppendUvarint(dst, tag)
	begin := len(dst)
	dst, err := body(dst)
	if err != nil {
		return nil, err
	}
	var length [binary.MaxVarintLen64]byte
	return slices.Insert(dst, begin, length[:binary.PutUvarint(length[:], uint64(len(dst)-begin))]...), nil
}
