package schema

import (
	"strconv"

	openapierrors "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// validator validates a value against a schema. Its errors are those of kube-openapi's validator, which kube-apiserver
// uses.
//
// Like that validator it counts matches: if a value fits none of several schemas, the errors of the one with the most
// matches are reported.
type validator struct {
	found []error
	bytes int // approximate size of found
	path  []step
	// quiet means that only the verdict matters: the first failure ends the validation.
	quiet bool
	// full means that there is no room for more errors.
	full    bool
	ratchet *ratchet // nil: there is no old object
}

// step is one step of a path: a field, or an item if name is empty.
type step struct {
	name  string
	index int
	kind  stepKind
}

type stepKind uint8

const (
	toProperty stepKind = iota
	toExtra             // to a field that is not a property: written with a dot even at the root
	toItem
)

// result is the result of validating a value.
type result struct {
	failed bool
	// differs means that the value is known to differ from its old one.
	differs bool
	matches int
}

// before is the old value that a value is compared with; the zero value means that there is none.
type before struct {
	value any
	known bool
}

// value validates v, whose old value is old. It drops the errors of an unchanged value.
func (c *validator) value(n *node, v any, old before) result {
	if c.full {
		return result{failed: true}
	}
	mark := c.mark()
	r := c.check(n, v, old)
	if r.failed && old.known && !r.differs {
		if c.ratchet.same(n, v, old.value) {
			c.cut(mark)
			r.failed = false
		} else {
			r.differs = true
		}
	}
	return r
}

func (c *validator) check(n *node, v any, old before) (r result) {
	if v == nil {
		return c.null(n)
	}
	if n.types != 0 || n.format() != "" {
		r.matches++
		if c.isOfType(n, v) {
			r.matches++
		} else if r.failed = true; c.quiet {
			return r
		}
	}
	r.matches += 2
	if n.combos != nil {
		c.combos(n.combos, v, &r)
		if r.failed && c.quiet {
			return r
		}
	}
	switch v := v.(type) {
	case string:
		c.text(n, v, &r)
	case int64, float64:
		r.matches += 2
		if n.checks != nil || n.types == isInteger {
			r.failed = !c.number(n, v) || r.failed
		}
	case []any:
		c.list(n, v, old, &r)
	}
	if r.failed && c.quiet {
		return r
	}
	r.matches++
	if n.checks != nil && len(n.checks.enum) > 0 && !n.checks.inEnum(v) {
		c.enum(n, v, &r)
	}
	if v, ok := v.(map[string]any); ok {
		r.matches++
		if !(r.failed && c.quiet) {
			c.object(n, v, old, &r)
		}
	}
	r.matches++
	return r
}

func (c *validator) null(n *node) (r result) {
	if n.types != 0 && n.types&isNull == 0 && !n.is(nullable) {
		r.failed = true
		c.add(func(at string) error { return openapierrors.InvalidType(at, in, n.typeName, "null") })
	} else {
		r.matches++
	}
	if n.checks != nil && len(n.checks.enum) > 0 { // no enum contains null
		c.enum(n, nil, &r)
	}
	return r
}

func (c *validator) enum(n *node, v any, r *result) {
	r.failed = true
	c.add(func(at string) error { return openapierrors.EnumFail(at, in, v, n.checks.enum) })
}

// text validates a string. Only the first error is reported, and that of the format in addition.
func (c *validator) text(n *node, s string, r *result) {
	r.matches++
	k := n.checks
	if k == nil {
		return
	}
	if err := k.text(s); err != nil {
		r.failed = true
		c.add(err)
	}
	if k.isFormat != nil {
		r.matches++
		if !k.isFormat(s) {
			r.failed = true
			c.add(func(at string) error { return openapierrors.InvalidType(at, in, k.format, s) })
		}
	}
}

func (c *validator) list(n *node, list []any, old before, r *result) {
	r.matches += 2
	if n.items != nil {
		c.items(n, list, old, r)
	}
	if r.failed && c.quiet {
		return
	}
	k, size := n.checks, int64(len(list))
	if k != nil && k.minItems != nil && size < *k.minItems {
		r.failed = true
		c.add(func(at string) error { return validate.MinItems(at, in, size, *k.minItems) })
	}
	if k != nil && k.maxItems != nil && size > *k.maxItems {
		r.failed = true
		c.add(func(at string) error { return validate.MaxItems(at, in, size, *k.maxItems) })
	}
	if n.is(uniqueItems) && hasEqual(list) {
		r.failed = true
		c.add(func(at string) error { return openapierrors.DuplicateItems(at, in) })
	}
}

func (c *validator) items(n *node, list []any, old before, r *result) {
	olds := n.oldItems(old)
	for i, v := range list {
		c.path = append(c.path, step{kind: toItem, index: i})
		r.add(c.value(n.items, v, olds.of(v)))
		c.path = c.path[:len(c.path)-1]
		if c.full || r.failed && c.quiet {
			return
		}
	}
}

func (c *validator) object(n *node, obj map[string]any, old before, r *result) {
	if k, size := n.checks, int64(len(obj)); k != nil {
		if k.minProperties != nil && size < *k.minProperties {
			r.failed = true
			c.add(func(at string) error { return openapierrors.TooFewProperties(at, in, *k.minProperties, size) })
		}
		if k.maxProperties != nil && size > *k.maxProperties {
			r.failed = true
			c.add(func(at string) error { return openapierrors.TooManyProperties(at, in, *k.maxProperties, size) })
		}
	}
	c.fields(n, obj, old, r)
	for _, name := range n.required {
		if _, ok := obj[name]; !ok {
			r.failed = true
			c.add(func(at string) error { return openapierrors.Required(at+"."+name, in) })
		}
	}
}

func (c *validator) fields(n *node, obj map[string]any, old before, r *result) {
	if len(n.props) == 0 && n.extra == nil && !n.is(extraForbidden) {
		return
	}
	oldObj, _ := old.value.(map[string]any)
	for name, v := range obj {
		if c.full || r.failed && c.quiet {
			return
		}
		s, kind := n.property(name), toProperty
		if s == nil {
			s, kind = n.extra, toExtra
		}
		if s == nil {
			if n.is(extraForbidden) {
				r.failed = true
				c.add(func(at string) error { return openapierrors.PropertyNotAllowed(at, in, name) })
			}
			continue
		}
		var was before
		if old.known && !(len(c.path) == 0 && (name == "kind" || name == "apiVersion")) {
			// Old and new object have the same version, whatever the stored version.
			was.value, was.known = oldObj[name]
		}
		c.path = append(c.path, step{kind: kind, name: name})
		r.add(c.value(s, v, was))
		c.path = c.path[:len(c.path)-1]
	}
}

// add merges the result of a part.
func (r *result) add(part result) {
	r.failed = r.failed || part.failed
	r.differs = r.differs || part.differs
	r.matches += part.matches
}

// add reports the error that made returns for the path of the value.
func (c *validator) add(made func(at string) error) {
	if c.quiet || c.full {
		return
	}
	c.put(made(c.at()))
}

func (c *validator) put(err error) {
	c.found = append(c.found, err)
	c.bytes += sizeOf(err)
	c.full = len(c.found) >= maxErrors || c.bytes >= maxErrorBytes
}

// mark is a position in the found errors.
type mark struct{ errors, bytes int }

func (c *validator) mark() mark { return mark{len(c.found), c.bytes} }

// cut removes the errors found after m.
func (c *validator) cut(m mark) {
	c.found, c.bytes, c.full = c.found[:m.errors], m.bytes, false
}

// sizeOf returns the approximate size of an error's text, including the value in it.
func sizeOf(err error) int {
	size := len(err.Error())
	if v, ok := err.(*openapierrors.Validation); ok {
		if s, ok := v.Value.(string); ok {
			size += len(s)
		}
	}
	return size
}

// at returns the path of the current value, in the form that errors use.
func (c *validator) at() string {
	var b []byte
	for i, s := range c.path {
		if s.kind == toItem {
			b = append(strconv.AppendInt(append(b, '['), int64(s.index), 10), ']')
			continue
		}
		if i > 0 || s.kind == toExtra {
			b = append(b, '.')
		}
		b = append(b, s.name...)
	}
	return string(b)
}
