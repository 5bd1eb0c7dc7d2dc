package schema

import (
	"slices"
	"strconv"
)

// Prune removes unknown fields, and null values that are not nullable and have no default. It does not touch
// apiVersion, kind and metadata of the root and of embedded resources. With report it returns the sorted paths of the
// unknown fields that it removed.
func (s *Schema) Prune(obj map[string]any, report bool) []string {
	return s.prune(obj, report).unknown
}

func (s *Schema) prune(obj map[string]any, report bool) *pruner {
	p := &pruner{report: report}
	if !s.preserve {
		p.object(s.root, obj, !s.root.preserving(), true)
		slices.Sort(p.unknown)
	}
	return p
}

// pruner removes unknown fields.
type pruner struct {
	report    bool
	keepNulls bool
	path      []byte // set only for reports
	unknown   []string
	parts     int // number of visited objects and list items
}

// value prunes a value; if strict is false, its unknown fields stay. Lists pass strict on to their items; fields do
// not, they follow their own schema.
func (p *pruner) value(n *node, v any, strict bool) {
	switch v := v.(type) {
	case map[string]any:
		p.object(n, v, strict, n != nil && n.is(embedded))
	case []any:
		if n == nil && !strict {
			return
		}
		var items *node
		if n != nil {
			items = n.items
		}
		p.parts += len(v)
		length := len(p.path)
		for i, item := range v {
			switch item.(type) {
			case map[string]any, []any:
				p.index(i)
				p.value(items, item, strict && !items.preserving())
				p.path = p.path[:length]
			}
		}
	}
}

// refusesNull reports whether n is not nullable and has no default.
func (n *node) refusesNull() bool { return n != nil && !n.is(nullable) && n.def == nil }

func (n *node) preserving() bool { return n != nil && n.is(preserves) }

func (p *pruner) object(n *node, obj map[string]any, strict, resource bool) {
	p.parts++
	if n == nil {
		if resource || strict {
			p.clear(obj, resource)
		}
		return
	}
	length := len(p.path)
	for name, v := range obj {
		s := n.property(name)
		if s == nil {
			s = n.extra
		}
		if v == nil && s.refusesNull() && !p.keepNulls {
			delete(obj, name)
			continue
		}
		known := s != nil || n.is(extraAllowed|extraForbidden)
		switch {
		case resource && isResourceField(name):
			if s != nil && !p.keepNulls {
				p.nulls(s, v)
			}
		case known:
			p.key(name)
			p.value(s, v, !s.preserving())
			p.path = p.path[:length]
		case strict:
			if length > 0 || !isResourceField(name) {
				p.note(name)
			}
			delete(obj, name)
		}
	}
}

// clear removes all fields.
func (p *pruner) clear(obj map[string]any, resource bool) {
	for name := range obj {
		if resource && isResourceField(name) {
			continue
		}
		p.note(name)
		delete(obj, name)
	}
}

// nulls removes only null values that are not allowed.
func (p *pruner) nulls(n *node, v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			s := n.property(name)
			if s == nil {
				s = n.extra
			}
			switch {
			case s == nil:
			case value == nil && s.refusesNull():
				delete(v, name)
			default:
				p.nulls(s, value)
			}
		}
	case []any:
		if n.items == nil {
			return
		}
		for _, item := range v {
			p.nulls(n.items, item)
		}
	}
}

func isResourceField(name string) bool {
	return name == "metadata" || name == "apiVersion" || name == "kind"
}

func (p *pruner) key(name string) {
	if !p.report {
		return
	}
	if len(p.path) > 0 {
		p.path = append(p.path, '.')
	}
	p.path = append(p.path, name...)
}

func (p *pruner) index(i int) {
	if p.report {
		p.path = append(strconv.AppendInt(append(p.path, '['), int64(i), 10), ']')
	}
}

func (p *pruner) note(name string) {
	if !p.report {
		return
	}
	length := len(p.path)
	p.key(name)
	p.unknown = append(p.unknown, string(p.path))
	p.path = p.path[:length]
}
