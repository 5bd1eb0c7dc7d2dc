package schema

import (
	"iter"
	"slices"
	"strings"
	"sync/atomic"
)

// node is the compiled schema of a value. Within a Schema, nodes of equal content are the same node.
type node struct {
	types    typeSet
	flags    flags
	typeName string // as in errors: "string", "integer,string"
	props    []property
	items    *node
	extra    *node // schema of fields that are not properties
	required []string
	def      any
	checks   *checks
	combos   *combos
	keys     []string // x-kubernetes-list-map-keys
	rules    []*rule
	seen     atomic.Pointer[view] // as expressions see it, created on first use
}

// property is a property of an object.
type property struct {
	name string
	*node
}

// typeSet is a set of JSON types. The empty set means any type.
type typeSet uint8

const (
	isObject typeSet = 1 << iota
	isArray
	isString
	isInteger
	isNumber
	isBoolean
	isNull
	isOther // an unknown type: no value has it
)

var typeNames = [...]string{"object", "array", "string", "integer", "number", "boolean", "null"}

func typeOf(name string) typeSet {
	if name == "" {
		return 0
	}
	if i := slices.Index(typeNames[:], name); i >= 0 {
		return 1 << i
	}
	return isOther
}

// flags are the boolean settings of a schema.
type flags uint32

const (
	isRoot flags = 1 << iota
	nullable
	preserves
	embedded
	intOrString
	extraAllowed   // additionalProperties: true
	extraForbidden // additionalProperties: false
	uniqueItems
	listSet
	listMap
	listAtomic
	mapAtomic
	mapGranular
	// formatted is a string with a format other than byte: field management treats it as untyped.
	formatted
	// unreal is a schema that expressions cannot see, because its values have no type.
	unreal
	// The flags below describe the schema and all schemas within it, so that a walk can skip parts.
	hasDefaults
	hasLists
	hasEmbedded
	hasRules
)

// below are the flags that a schema inherits from schemas within it.
const below = hasDefaults | hasLists | hasEmbedded | hasRules

func (n *node) is(f flags) bool { return n.flags&f != 0 }

// property returns the schema of a property, or nil.
func (n *node) property(name string) *node {
	i, ok := slices.BinarySearchFunc(n.props, name, func(p property, name string) int {
		return strings.Compare(p.name, name)
	})
	if !ok {
		return nil
	}
	return n.props[i].node
}

// fields yields the fields of an object that are properties whose schemas have a flag.
func (n *node) fields(obj map[string]any, f flags) iter.Seq2[property, any] {
	return func(yield func(property, any) bool) {
		if len(obj) < len(n.props)/8 {
			for name, v := range obj {
				if s := n.property(name); s != nil && s.is(f) && !yield(property{name, s}, v) {
					return
				}
			}
			return
		}
		for _, p := range n.props {
			if !p.is(f) {
				continue
			}
			if v, ok := obj[p.name]; ok && !yield(p, v) {
				return
			}
		}
	}
}

// checks are constraints on single values.
type checks struct {
	min, max, multipleOf         *float64
	exclusiveMin, exclusiveMax   bool
	minLength, maxLength         *int64
	minItems, maxItems           *int64
	minProperties, maxProperties *int64
	format                       string // "" or a format that is checked
	isFormat                     func(string) bool
	pattern                      *pattern
	enum                         []any
	names                        map[string]struct{} // the strings of a long enum
}

// combos are constraints by other schemas.
type combos struct {
	anyOf, oneOf, allOf []*node
	not                 *node
}
