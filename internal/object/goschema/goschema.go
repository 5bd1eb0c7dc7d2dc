// Package goschema derives the schemas of kinds from their Go types, for kinds that no CustomResourceDefinition describes.
package goschema

import (
	"cmp"
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/object/apitype"
)

type props = apiextensionsv1.JSONSchemaProps

// Of derives the schema of a kind from its Go type, by its json tags. A field without omitempty or omitzero is required.
// The tag doc is the description of a field, that of the inlined metav1.TypeMeta the description of the kind; the tag
// default is a field's default, as JSON.
func Of(t reflect.Type) (*apiextensionsv1.JSONSchemaProps, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%s is not a struct", t)
	}
	p, err := (&deriver{}).of(apitype.Of(t))
	if err != nil {
		return nil, err
	}
	if _, ok := p.Properties["metadata"]; !ok {
		return nil, fmt.Errorf("%s has no field metadata; a kind without a Go type needs a schema of its own", t)
	}
	delete(p.Properties, "apiVersion")
	delete(p.Properties, "kind")
	p.Properties["metadata"] = props{Type: "object"}
	p.Required = slices.DeleteFunc(p.Required, func(name string) bool { return name == "apiVersion" || name == "kind" || name == "metadata" })
	return p, nil
}

// deriver derives the schema of one type.
type deriver struct {
	within []*apitype.Type // the structs around, to find types that contain themselves
}

// described is a type of Kubernetes that says how it is written.
type described interface {
	OpenAPISchemaType() []string
	OpenAPISchemaFormat() string
}

// free is the schema of what is written as it likes.
func free(as string) *props { return &props{Type: as, XPreserveUnknownFields: new(true)} }

func (d *deriver) of(t *apitype.Type) (*props, error) {
	switch {
	case t.Kind == apitype.IntOrString, t.Kind == apitype.Quantity:
		return &props{XIntOrString: true, AnyOf: []props{{Type: "integer"}, {Type: "string"}}}, nil
	case t.Kind == apitype.Time, t.Kind == apitype.MicroTime, t.Go == reflect.TypeFor[time.Time]():
		return &props{Type: "string", Format: "date-time"}, nil
	}
	if says, ok := reflect.New(t.Go).Interface().(described); ok && len(says.OpenAPISchemaType()) == 1 {
		p := &props{Type: says.OpenAPISchemaType()[0], Format: says.OpenAPISchemaFormat()}
		if p.Type == "object" {
			p.XPreserveUnknownFields = new(true)
		}
		return p, nil
	}
	switch {
	case t.Go.Kind() == reflect.Struct:
		return d.object(t)
	case t.Kind == apitype.Own, t.Go.Kind() == reflect.Interface:
		return free(""), nil
	case t.Kind == apitype.Pointer:
		return d.of(t.Elem)
	case t.Kind == apitype.List, t.Go.Kind() == reflect.Array:
		items, err := d.of(t.Elem)
		return &props{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: items}}, err
	case t.Go.Kind() == reflect.Map && t.Elem != nil:
		values, err := d.of(t.Elem)
		return &props{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: values}}, err
	}
	return scalar(t)
}

func scalar(t *apitype.Type) (*props, error) {
	switch t.Kind {
	case apitype.String:
		return &props{Type: "string"}, nil
	case apitype.Bytes:
		return &props{Type: "string", Format: "byte"}, nil
	case apitype.Bool:
		return &props{Type: "boolean"}, nil
	case apitype.Int, apitype.Uint:
		if t.Go.Kind() == reflect.Int32 {
			return &props{Type: "integer", Format: "int32"}, nil
		}
		return &props{Type: "integer", Format: "int64"}, nil
	case apitype.Float:
		return &props{Type: "number"}, nil
	}
	if reflect.PointerTo(t.Go).Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return &props{Type: "string"}, nil
	}
	return nil, fmt.Errorf("%s has no form in JSON", t.Go)
}

func (d *deriver) object(t *apitype.Type) (*props, error) {
	if slices.Contains(d.within, t) { // a schema is a tree
		return free("object"), nil
	}
	d.within = append(d.within, t)
	defer func() { d.within = d.within[:len(d.within)-1] }()
	p := &props{Type: "object", Properties: map[string]props{}, Description: docsOf(t.Go)[""]}
	return p, d.fields(t, p)
}

// fields adds the fields of a struct to a schema.
func (d *deriver) fields(t *apitype.Type, to *props) error {
	docs := docsOf(t.Go)
	for i := range t.Fields {
		f := &t.Fields[i]
		doc := f.Go.Tag.Get("doc")
		if f.Inline {
			if err := d.fields(f.Type.Bare(), to); err != nil {
				return err
			}
			if doc != "" && f.Go.Type == reflect.TypeFor[metav1.TypeMeta]() {
				to.Description = doc
			}
		}
		if f.Name == "" {
			continue
		}
		p, err := d.of(f.Type)
		if err != nil {
			return fmt.Errorf("%s.%s: %w", t.Go.Name(), f.Go.Name, err)
		}
		p.Description = cmp.Or(doc, docs[f.Name], p.Description)
		if def, ok := f.Go.Tag.Lookup("default"); ok {
			p.Default = &apiextensionsv1.JSON{Raw: []byte(def)}
		}
		to.Properties[f.Name] = *p
		if !f.Empty && f.Zero == nil {
			to.Required = append(to.Required, f.Name)
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
		f := t.Field(n)
		if in := apitype.Of(f.Type).Bare().Go; f.Anonymous && in.Kind() == reflect.Struct && reflect.ValueOf(docsOf(in)).Pointer() == reflect.ValueOf(docs).Pointer() {
			return nil // the embedded type says it
		}
	}
	return docs
}
