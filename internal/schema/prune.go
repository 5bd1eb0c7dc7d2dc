package schema

import (
	"slices"
	"strconv"
)

// Prune removes the fields that the schema does not know, and null where it is
// not allowed and no default takes its place. The root's apiVersion, kind and
// metadata and those of embedded resources stay as they are. With report it
// returns the paths of the fields that it removed as unknown, sorted.
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

// pruner removes what does not belong.
type pruner struct {
	report    bool
	keepNulls bool
	path      []byte // kept only for reports
	unknown   []string
	parts     int // objects and list items that were met
}

// value prunes a value, whose unknown fields stay if not strict. Lists hand
// that down to their items, fields do not: theirs is what their schema says.
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

// refusesNull says that null is no value of n, and that nothing takes its place.
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

// nulls removes null where it is not allowed, and nothing else.
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
