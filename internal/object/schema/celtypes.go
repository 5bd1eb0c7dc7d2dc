package schema

import (
	"strconv"
	"sync"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// provider returns the types of fields to expressions. It creates them on demand, because a rule uses few fields of a
// large schema.
type provider struct {
	// The embedded provider answers everything else.
	*apiservercel.DeclTypeProvider

	mu    sync.Mutex
	names map[*view]string
	views map[string]*view
}

func newProvider(base types.Provider) (*provider, error) {
	rest, err := apiservercel.NewDeclTypeProvider().WithTypeProvider(base)
	if err != nil {
		return nil, err
	}
	return &provider{DeclTypeProvider: rest, names: map[*view]string{}, views: map[string]*view{}}, nil
}

// typeOf returns the CEL type of a schema's values, or nil if expressions cannot see them; see common.SchemaDeclType.
// With isResource, the type has the fields of resources, even if the schema does not.
func (p *provider) typeOf(v *view, isResource bool) *types.Type {
	if v.is(unreal) {
		return nil
	}
	if v.is(intOrString) {
		return celgo.DynType
	}
	switch v.types {
	case isArray:
		return celgo.ListType(p.typeOf(v.items.asSeen(), v.items.is(embedded)))
	case isObject:
		if v.extra != nil {
			return celgo.MapType(celgo.StringType, p.typeOf(v.extra.asSeen(), v.extra.is(embedded)))
		}
		if isResource {
			v = v.resource()
		}
		return celgo.ObjectType(p.nameOf(v))
	case isString:
		switch v.format() {
		case "byte":
			return celgo.BytesType
		case "duration":
			return celgo.DurationType
		case "date", "date-time":
			return celgo.TimestampType
		}
		return celgo.StringType
	case isBoolean:
		return celgo.BoolType
	case isNumber:
		return celgo.DoubleType
	}
	return celgo.IntType
}

func (p *provider) nameOf(v *view) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	name, ok := p.names[v]
	if !ok {
		name = "selfType" + strconv.Itoa(len(p.names))
		p.names[v], p.views[name] = name, v
	}
	return name
}

func (p *provider) named(name string) *view {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.views[name]
}

// FindStructType implements types.Provider.
func (p *provider) FindStructType(name string) (*types.Type, bool) {
	if p.named(name) == nil {
		return p.DeclTypeProvider.FindStructType(name)
	}
	return types.NewTypeTypeWithParam(celgo.ObjectType(name)), true
}

// FindStructFieldType implements types.Provider.
func (p *provider) FindStructFieldType(name, fieldName string) (*types.FieldType, bool) {
	v := p.named(name)
	if v == nil {
		return p.DeclTypeProvider.FindStructFieldType(name, fieldName)
	}
	property, ok := propertyName(fieldName)
	if !ok {
		return nil, false
	}
	s, ok := v.Properties()[property].(*view)
	if !ok {
		return nil, false
	}
	t := p.typeOf(s, s.is(embedded))
	if t == nil {
		return nil, false
	}
	return &types.FieldType{Type: t}, true
}

// propertyName returns the property that an expression writes as name. Names that CEL cannot express are escaped, but
// keywords may also be written plainly, as in self.namespace.
func propertyName(name string) (string, bool) {
	escaped, ok := apiservercel.Escape(name)
	if ok && escaped == "__"+name+"__" {
		return name, true
	}
	property, ok := apiservercel.Unescape(name)
	if !ok {
		return "", false
	}
	escaped, ok = apiservercel.Escape(property)
	return property, ok && escaped == name
}
