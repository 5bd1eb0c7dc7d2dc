// Package goschema derives the schemas of kinds from their Go types, for kinds that no CustomResourceDefinition describes.
package goschema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

type props = apiextensionsv1.JSONSchemaProps

// Of derives the schema of a kind from its Go type, by its json tags. A field without omitempty or omitzero is required.
// The tag doc is the description of a field, that of the inlined metav1.TypeMeta the description of the kind; the tag
// default is a field's default, as JSON.
func Of(t reflect.Type) (*apiextensionsv1.JSONSchemaProps, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%s is not a struct", t)
	}
	p, err := (&deriver{}).of(t)
	if err != nil {
		return nil, err
	}
	delete(p.Properties, "apiVersion")
	delete(p.Properties, "kind")
	if _, ok := p.Properties["metadata"]; !ok {
		return nil, fmt.Errorf("%s has no field metadata; a kind without a Go type needs a schema of its own", t)
	}
	p.Properties["metadata"] = props{Type: "object"}
	p.Required = without(p.Required, "apiVersion", "kind", "metadata")
	return p, nil
}

func without(list []string, names ...string) []string {
	var out []string
	for _, s := range list {
		if strings.Contains(","+strings.Join(names, ",")+",", ","+s+",") {
			continue
		}
		out = append(out, s)
	}
	return out
}

// deriver derives the schema of one type.
type deriver struct {
	within []reflect.Type // the structs around, to find types that contain themselves
}

// described is a type of Kubernetes that says how it is written.
type described interface {
	OpenAPISchemaType() []string
	OpenAPISchemaFormat() string
}

func (d *deriver) of(t reflect.Type) (*props, error) {
	yes := true
	switch t {
	case reflect.TypeFor[intstr.IntOrString](), reflect.TypeFor[resource.Quantity]():
		return &props{XIntOrString: true, AnyOf: []props{{Type: "integer"}, {Type: "string"}}}, nil
	case reflect.TypeFor[time.Time](), reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		return &props{Type: "string", Format: "date-time"}, nil
	case reflect.TypeFor[json.RawMessage]():
		return &props{XPreserveUnknownFields: &yes}, nil
	}
	if says, ok := reflect.New(t).Interface().(described); ok && len(says.OpenAPISchemaType()) == 1 {
		p := &props{Type: says.OpenAPISchemaType()[0], Format: says.OpenAPISchemaFormat()}
		if p.Type == "object" {
			p.XPreserveUnknownFields = &yes
		}
		return p, nil
	}
	if t.Kind() == reflect.Struct {
		return d.object(t)
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()) {
		return &props{XPreserveUnknownFields: &yes}, nil // written as it likes
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.of(t.Elem())
	case reflect.Interface:
		return &props{XPreserveUnknownFields: &yes}, nil
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return &props{Type: "string", Format: "byte"}, nil
		}
		items, err := d.of(t.Elem())
		return &props{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: items}}, err
	case reflect.Map:
		values, err := d.of(t.Elem())
		return &props{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: values}}, err
	}
	return scalar(t)
}

func scalar(t reflect.Type) (*props, error) {
	switch t.Kind() {
	case reflect.String:
		return &props{Type: "string"}, nil
	case reflect.Bool:
		return &props{Type: "boolean"}, nil
	case reflect.Int32:
		return &props{Type: "integer", Format: "int32"}, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return &props{Type: "integer", Format: "int64"}, nil
	case reflect.Float32, reflect.Float64:
		return &props{Type: "number"}, nil
	}
	return nil, fmt.Errorf("%s has no form in JSON", t)
}

func (d *deriver) object(t reflect.Type) (*props, error) {
	p := &props{Type: "object", Properties: map[string]props{}}
	for _, around := range d.within {
		if around == t { // a schema is a tree
			yes := true
			return &props{Type: "object", XPreserveUnknownFields: &yes}, nil
		}
	}
	d.within = append(d.within, t)
	defer func() { d.within = d.within[:len(d.within)-1] }()
	p.Description = docsOf(t)[""]
	return p, d.fields(t, p)
}

// fields adds the fields of a struct to a schema.
func (d *deriver) fields(t reflect.Type, to *props) error {
	docs := docsOf(t)
	for n := range t.NumField() {
		f := t.Field(n)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
			continue
		case name == "" && (f.Anonymous || strings.Contains(options, "inline")):
			if err := d.fields(bare(f.Type), to); err != nil {
				return err
			}
			if doc := f.Tag.Get("doc"); doc != "" && f.Type == reflect.TypeFor[metav1.TypeMeta]() {
				to.Description = doc
			}
			continue
		case name == "":
			name = f.Name
		}
		p, err := d.of(f.Type)
		if err != nil {
			return fmt.Errorf("%s.%s: %w", t.Name(), f.Name, err)
		}
		if doc := f.Tag.Get("doc"); doc != "" {
			p.Description = doc
		} else if docs[name] != "" {
			p.Description = docs[name]
		}
		if def, ok := f.Tag.Lookup("default"); ok {
			p.Default = &apiextensionsv1.JSON{Raw: []byte(def)}
		}
		to.Properties[name] = *p
		if !strings.Contains(options, "omit") {
			to.Required = append(to.Required, name)
		}
	}
	return nil
}

// docsOf are the descriptions of fields that the types of Kubernetes have; "" is that of the type.
func docsOf(t reflect.Type) map[string]string {
	says, ok := reflect.New(t).Interface().(interface{ SwaggerDoc() map[string]string })
	if !ok {
		return nil
	}
	docs := says.SwaggerDoc()
	for n := range t.NumField() {
		if f := t.Field(n); f.Anonymous && bare(f.Type).Kind() == reflect.Struct {
			if reflect.ValueOf(docsOf(bare(f.Type))).Pointer() == reflect.ValueOf(docs).Pointer() {
				return nil // the embedded type says it
			}
		}
	}
	return docs
}

// bare is a type without its pointer.
func bare(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}
