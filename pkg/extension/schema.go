package extension

import (
	"reflect"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kanzen-io/kanzen/internal/object/goschema"
)

// SchemaOf derives a schema from a Go type, by its json tags. A field without omitempty or omitzero is required. The
// tag doc is the description of a field, the tag default its default, as JSON:
//
//	Size int `json:"size,omitempty" default:"1" doc:"How large it is."`
//
// The tag doc of the inlined metav1.TypeMeta is the description of the kind. What tags cannot say (bounds, enumerations,
// keys of lists, rules) is for the caller to put into the schema.
func SchemaOf[T any]() (*apiextensionsv1.JSONSchemaProps, error) {
	return goschema.Of(reflect.TypeFor[T]())
}
