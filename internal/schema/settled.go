package schema

import "github.com/kanzen-io/kanzen/internal/jsonobject"

// Settled says of the JSON of an object in a version that its metadata is in
// order, that Coerce and Default would leave it as it is, and that it is
// written as jsonobject.Marshal writes: it can be served without being decoded.
// Without resourceVersion, it has that put in at the offset at. An object may
// be settled without this saying so; it takes a tenth of the time that
// decoding, coercing and defaulting do.
func (s *Schema) Settled(doc []byte, apiVersion string) (at int, ok bool) {
	if s.preserve || s.root == nil || s.root.is(hasEmbedded) {
		return 0, false
	}
	w := settler{Scanner: jsonobject.NewScanner(doc), apiVersion: apiVersion}
	ok = w.object(s.root, !s.root.preserving(), true) && w.Ahead() == 0 && w.Offset() == len(doc) && w.at > 0 && w.typed
	return w.at, ok
}

// settler walks over an object as pruner and filler do, and reports false where
// they would change it.
type settler struct {
	*jsonobject.Scanner
	apiVersion string
	typed      bool // apiVersion is what it has to be
	at         int  // where resourceVersion belongs
	depth      int
}

// maxSettled is how deep objects may nest that a settler looks at.
const maxSettled = 200

func (w *settler) value(n *node, strict bool) bool {
	if w.depth++; w.depth > maxSettled {
		return false
	}
	defer func() { w.depth-- }()
	switch w.Ahead() {
	case '{':
		return w.object(n, strict, false)
	case '[':
		if n == nil && !strict {
			return w.Skip()
		}
		var items *node
		if n != nil {
			items = n.items
		}
		return w.Array(func() bool {
			if w.Ahead() == 'n' && items != nil && items.def != nil {
				return false
			}
			return w.value(items, strict && !items.preserving())
		})
	}
	return w.Skip()
}

func (w *settler) object(n *node, strict, root bool) bool {
	if n == nil {
		// All fields go, or none.
		return w.Object(func(string, int) bool { return !strict && w.Skip() })
	}
	props := n.props // that are still to come; both are in order
	ok := w.Object(func(name string, at int) bool {
		for len(props) > 0 && props[0].name < name {
			if props[0].def != nil {
				return false
			}
			props = props[1:]
		}
		s := n.extra
		if len(props) > 0 && props[0].name == name {
			s, props = props[0].node, props[1:]
		}
		if s != nil && !s.is(nullable) && w.Ahead() == 'n' {
			return false
		}
		switch {
		case root && isResourceField(name):
			return w.resourceField(s, name)
		case s != nil || n.is(extraAllowed|extraForbidden):
			return w.value(s, !s.preserving())
		}
		return !strict && w.Skip()
	})
	for _, p := range props {
		if p.def != nil {
			return false
		}
	}
	return ok
}

// resourceField goes past a field that each resource has. s is what the schema
// says of it, which is seldom more than its type.
func (w *settler) resourceField(s *node, name string) bool {
	if s != nil && (s.is(hasDefaults) || s.extra != nil || s.items != nil || s.property("managedFields") != nil) {
		return false
	}
	if name == "metadata" {
		return w.metadata()
	}
	text, ok := w.Text()
	w.typed = w.typed || name == "apiVersion" && text == w.apiVersion
	return ok
}

// metadata goes past metadata that is as isCanonical has it and without
// resourceVersion, which goes in front of uid.
func (w *settler) metadata() bool {
	generation := false
	return w.Object(func(name string, at int) bool {
		switch name {
		case "resourceVersion", "selfLink":
			return false
		case "managedFields":
			entries := 0
			return w.Array(func() bool { entries++; return w.manager() }) && entries > 0
		case "uid":
			w.at = at
		case "generation":
			generation = true
		}
		v, ok := w.Value()
		return ok && isCanonicalField(name, v)
	}) && generation
}

// manager goes past an entry of managedFields that isManager says yes to. The
// fields are most of its bytes.
func (w *settler) manager() bool {
	return w.Object(func(name string, _ int) bool {
		if name != "fieldsV1" {
			v, ok := w.Value()
			return ok && isManagerField(name, v)
		}
		fields := 0
		return w.Object(func(string, int) bool { fields++; return w.Skip() }) && fields > 0
	})
}
