package schema

import "github.com/kanzen-io/kanzen/internal/object/jsonobject"

// Canonical reports whether JSON of an object in a version is canonical: its metadata is valid, Coerce and Default would
// not change it, and it is written as jsonobject.Marshal writes. Such an object can be served without decoding. If it
// has no resourceVersion, at is the offset at which to insert it. Canonical may return false for a canonical object. It
// takes a tenth of the time of decoding, coercing and defaulting.
func (s *Schema) Canonical(doc []byte, apiVersion string) (at int, ok bool) {
	if s.preserve || s.root == nil || s.root.is(hasEmbedded) {
		return 0, false
	}
	w := canonicalScanner{Scanner: jsonobject.NewScanner(doc), apiVersion: apiVersion}
	ok = w.object(s.root, !s.root.preserving(), true) && w.Ahead() == 0 && w.Offset() == len(doc) && w.at > 0 && w.typed
	return w.at, ok
}

// canonicalScanner walks over an object as pruner and filler do, and returns false where they would change it.
type canonicalScanner struct {
	*jsonobject.Scanner
	apiVersion string
	typed      bool // apiVersion is correct
	at         int  // offset of resourceVersion
	depth      int
}

// maxCanonical is the maximum nesting of objects that a canonicalScanner accepts.
const maxCanonical = 200

func (w *canonicalScanner) value(n *node, strict bool) bool {
	if w.depth++; w.depth > maxCanonical {
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

func (w *canonicalScanner) object(n *node, strict, root bool) bool {
	if n == nil {
		// Either all fields stay or none.
		return w.Object(func(string, int) bool { return !strict && w.Skip() })
	}
	props := n.props // props still to come; both lists are sorted
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

// resourceField skips a standard field of resources. s is its schema, which mostly contains only a type.
func (w *canonicalScanner) resourceField(s *node, name string) bool {
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

// metadata skips metadata that isCanonical accepts and that has no resourceVersion, which will be inserted before uid.
func (w *canonicalScanner) metadata() bool {
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

// manager skips an entry of managedFields that isManager accepts. Most of its bytes are the field set.
func (w *canonicalScanner) manager() bool {
	return w.Object(func(name string, _ int) bool {
		if name != "fieldsV1" {
			v, ok := w.Value()
			return ok && isManagerField(name, v)
		}
		fields := 0
		return w.Object(func(string, int) bool { fields++; return w.Skip() }) && fields > 0
	})
}
