package extension_test

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kanzen-io/kanzen/pkg/extension"
)

// Book is the kind of the examples.
type Book struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Pages             int `json:"pages,omitempty" default:"1" doc:"How many there are."`
}

// A whole program: an API server of the kind Book, with flags.
func Example() {
	s := &extension.Server{Group: "library.example.com", Version: "v1"}
	extension.Add(s, extension.Kind[Book]{})
	extension.Main(s)
}

// A database in front of which there is an API. The functions are asked for objects, and write them.
func ExampleFunctions() {
	pages := map[string]int{"emma": 474}
	s := &extension.Server{Group: "library.example.com", Version: "v1"}
	extension.Add(s, extension.Kind[Book]{ClusterScoped: true, Functions: &extension.Functions[Book]{
		List: func(context.Context) ([]*Book, error) {
			var out []*Book
			for name, n := range pages {
				out = append(out, &Book{ObjectMeta: metav1.ObjectMeta{Name: name}, Pages: n})
			}
			return out, nil
		},
		Save:   func(_ context.Context, b, _ *Book) error { pages[b.Name] = b.Pages; return nil },
		Delete: func(_ context.Context, b *Book) error { delete(pages, b.Name); return nil },
	}})
	extension.Main(s)
}

// A derived schema is changed where tags do not suffice.
func ExampleSchemaOf() {
	schema, err := extension.SchemaOf[Book]()
	if err != nil {
		panic(err)
	}
	pages, most := schema.Properties["pages"], 10000.0
	pages.Maximum = &most
	schema.Properties["pages"] = pages
	fmt.Println(pages.Type, pages.Description, string(pages.Default.Raw))
	// Output: integer How many there are. 1
}

// A kind without a Go type has a name and a schema.
func ExampleKind_schema() {
	s := &extension.Server{Group: "library.example.com", Version: "v1"}
	extension.Add(s, extension.Kind[unstructured.Unstructured]{Name: "Shelf", Plural: "shelves", Schema: &apiextensionsv1.JSONSchemaProps{
		Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"meters": {Type: "integer"}},
	}})
	extension.Main(s)
}
