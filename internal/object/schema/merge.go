package schema

import (
	"strconv"

	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Type returns the type with which field management merges objects of the schema and tracks owners. It is created on
// first use.
func (s *Schema) Type() *typed.ParseableType { return s.converted() }

const (
	untypedType = "__untyped_atomic_"
	deducedType = "__untyped_deduced_"
	metaPackage = "io.k8s.apimachinery.pkg.apis.meta.v1."
	objectMeta  = metaPackage + "ObjectMeta"
)

func (s *Schema) convert() *typed.ParseableType {
	c := converter{names: map[converted]string{}}
	root := smd.Atom{Map: &smd.Map{ElementType: named(deducedType)}}
	if s.root != nil {
		root = c.atom(s.root, s.preserve, true)
	}
	c.types = append(c.types, smd.TypeDef{Name: "root", Atom: root})
	c.types = append(c.types, commonTypes()...)
	parser := typed.Parser{Schema: smd.Schema{Types: c.types}}
	t := parser.Type("root")
	return &t
}

// converter converts nodes to types. A node in several places becomes a named type.
type converter struct {
	types []smd.TypeDef
	names map[converted]string
}

// converted identifies a type: whether unknown fields are preserved is inherited.
type converted struct {
	node     *node
	preserve bool
}

func (c *converter) ref(n *node, preserve bool) smd.TypeRef {
	preserve = preserve || n.is(preserves)
	if n.isScalar() {
		return smd.TypeRef{Inlined: n.scalar()}
	}
	key := converted{n, preserve}
	name, ok := c.names[key]
	if !ok {
		name = strconv.Itoa(len(c.names))
		c.names[key] = name
		c.types = append(c.types, smd.TypeDef{Name: name, Atom: c.atom(n, preserve, n.is(embedded))})
	}
	return named(name)
}

func (c *converter) atom(n *node, preserve, isResource bool) smd.Atom {
	preserve = preserve || n.is(preserves)
	switch {
	case n.is(intOrString) || n.types == 0:
		return smd.Atom{Scalar: scalarOf("untyped"), List: c.list(n, preserve), Map: c.object(n, preserve, isResource)}
	case n.types == isObject:
		return smd.Atom{Map: c.object(n, preserve, isResource)}
	case n.types == isArray:
		return smd.Atom{List: c.list(n, preserve)}
	}
	return n.scalar()
}

func (c *converter) object(n *node, preserve, isResource bool) *smd.Map {
	m := &smd.Map{ElementRelationship: n.mapRelationship()}
	for _, p := range n.props {
		if !isResource || !isResourceField(p.name) {
			m.Fields = append(m.Fields, smd.StructField{Name: p.name, Type: c.ref(p.node, preserve), Default: p.def})
		}
	}
	if isResource {
		m.Fields = append(m.Fields,
			smd.StructField{Name: "apiVersion", Type: scalar(smd.String)},
			smd.StructField{Name: "kind", Type: scalar(smd.String)},
			smd.StructField{Name: "metadata", Type: named(objectMeta)})
	}
	switch {
	case n.extra != nil:
		m.ElementType = c.ref(n.extra, preserve)
	case n.is(extraAllowed), !n.is(extraForbidden) && (preserve || len(m.Fields) == 0):
		m.ElementType = named(deducedType)
	}
	return m
}

func (n *node) mapRelationship() smd.ElementRelationship {
	switch {
	case n.is(mapAtomic):
		return smd.Atomic
	case n.is(mapGranular):
		return smd.Separable
	}
	return ""
}

func (c *converter) list(n *node, preserve bool) *smd.List {
	l := &smd.List{ElementRelationship: smd.Atomic, ElementType: named(untypedType)}
	switch {
	case n.is(listMap):
		l.ElementRelationship, l.Keys = smd.Associative, n.keys
	case n.is(listSet):
		l.ElementRelationship = smd.Associative
	}
	if n.items != nil {
		l.ElementType = c.ref(n.items, preserve)
	}
	return l
}

func (n *node) isScalar() bool {
	return !n.is(intOrString) && n.types != 0 && n.types&(isObject|isArray) == 0
}

func (n *node) scalar() smd.Atom {
	of := smd.Scalar("untyped")
	switch {
	case n.types == isInteger, n.types == isNumber:
		of = smd.Numeric
	case n.types == isBoolean:
		of = smd.Boolean
	case n.types == isString && !n.is(formatted):
		of = smd.String
	}
	return smd.Atom{Scalar: scalarOf(of)}
}

func scalarOf(s smd.Scalar) *smd.Scalar { return &s }

func scalar(s smd.Scalar) smd.TypeRef { return smd.TypeRef{Inlined: smd.Atom{Scalar: &s}} }

func named(name string) smd.TypeRef { return smd.TypeRef{NamedType: &name} }

// commonTypes returns the types that all resources' types refer to.
func commonTypes() []smd.TypeDef {
	untyped, text, number := scalar("untyped"), scalar(smd.String), scalar(smd.Numeric)
	fields := func(of smd.TypeRef, names ...string) (out []smd.StructField) {
		for _, name := range names {
			out = append(out, smd.StructField{Name: name, Type: of})
		}
		return out
	}
	instant := named(metaPackage + "Time")
	texts := smd.TypeRef{Inlined: smd.Atom{Map: &smd.Map{ElementType: text}}}
	list := func(of smd.TypeRef, how smd.ElementRelationship, keys ...string) smd.TypeRef {
		return smd.TypeRef{Inlined: smd.Atom{List: &smd.List{ElementType: of, ElementRelationship: how, Keys: keys}}}
	}
	meta := fields(text, "generateName", "name", "namespace", "resourceVersion", "selfLink", "uid")
	meta = append(meta, fields(texts, "annotations", "labels")...)
	meta = append(meta, fields(number, "deletionGracePeriodSeconds", "generation")...)
	meta = append(meta, fields(instant, "creationTimestamp", "deletionTimestamp")...)
	meta = append(meta, fields(list(text, smd.Associative), "finalizers")...)
	meta = append(meta, fields(list(named(metaPackage+"ManagedFieldsEntry"), smd.Atomic), "managedFields")...)
	meta = append(meta, fields(list(named(metaPackage+"OwnerReference"), smd.Associative, "uid"), "ownerReferences")...)

	manager := fields(text, "apiVersion", "fieldsType", "manager", "operation", "subresource")
	manager = append(manager, fields(named(metaPackage+"FieldsV1"), "fieldsV1")...)
	manager = append(manager, fields(instant, "time")...)

	owner := fields(text, "apiVersion", "kind", "name", "uid")
	for i := range owner {
		owner[i].Default = ""
	}
	owner = append(owner, fields(scalar(smd.Boolean), "blockOwnerDeletion", "controller")...)

	untypedList := &smd.List{ElementType: named(untypedType), ElementRelationship: smd.Atomic}
	return []smd.TypeDef{
		{Name: objectMeta, Atom: smd.Atom{Map: &smd.Map{Fields: meta}}},
		{Name: metaPackage + "ManagedFieldsEntry", Atom: smd.Atom{Map: &smd.Map{Fields: manager}}},
		{Name: metaPackage + "OwnerReference", Atom: smd.Atom{Map: &smd.Map{Fields: owner, ElementRelationship: smd.Atomic}}},
		{Name: metaPackage + "FieldsV1", Atom: smd.Atom{Map: &smd.Map{ElementType: named(deducedType)}}},
		{Name: metaPackage + "Time", Atom: untyped.Inlined},
		{Name: untypedType, Atom: smd.Atom{Scalar: untyped.Inlined.Scalar, List: untypedList,
			Map: &smd.Map{ElementType: named(untypedType), ElementRelationship: smd.Atomic}}},
		{Name: deducedType, Atom: smd.Atom{Scalar: untyped.Inlined.Scalar, List: untypedList,
			Map: &smd.Map{ElementType: named(deducedType), ElementRelationship: smd.Separable}}},
	}
}
