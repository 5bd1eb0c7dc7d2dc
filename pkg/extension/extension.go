package extension

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/api/builtin/apiextensions"
	"github.com/kanzen-io/kanzen/internal/api/crd"
	"github.com/kanzen-io/kanzen/internal/engine"
)

// Server serves an API group. Kinds are put in with Add, before Start, Run or Main.
type Server struct {
	// Group and Version are the served ones: "example.com", "v1". Kinds may be served in further versions.
	Group, Version string

	kinds []*kind
}

// Object is a pointer to T that has the metadata of an object: T embeds metav1.TypeMeta and metav1.ObjectMeta, as the
// types of Kubernetes do. T may also be unstructured.Unstructured, for a kind that has a schema and no Go type.
type Object[T any] interface {
	*T
	metav1.Object
}

// Kind is a kind of objects. The zero value is complete if T is a Go type: its name is the kind's.
type Kind[T any] struct {
	// Name of the kind: "Thing"; empty: that of T. Plural is its name in paths: "things"; empty: Name in lower case with
	// an s.
	Name, Plural           string
	ShortNames, Categories []string
	// Doc describes the kind, for kubectl explain; empty: as the schema does.
	Doc string
	// ClusterScoped objects are in no namespace.
	ClusterScoped bool
	// Schema describes the objects in the words of CustomResourceDefinitions, with defaults, CEL rules and everything
	// else that those can say; nil: SchemaOf T. A kind whose schema has a field status has the subresource status.
	Schema *apiextensionsv1.JSONSchemaProps
	// Columns of kubectl get, beside the name; none: the age.
	Columns []Column
	// Validate returns what is wrong with an object that fits the schema; old is nil if it is new. Optional.
	Validate func(ctx context.Context, obj, old *T) field.ErrorList
	// Functions have the objects; nil: the server's storage has.
	Functions *Functions[T]
	// Subresources are further paths below an object's, beside status.
	Subresources []Subresource[T]
	// Versions are those in which the kind is served beside Server.Version.
	Versions []Version[T]
}

// Column is a column of kubectl get.
type Column struct {
	Name string
	// Path leads to the value: ".spec.size".
	Path string
	// Type is string, integer, number, boolean or date; empty: string.
	Type string
	// Wide shows the column only with -o wide.
	Wide bool
}

// Add adds a kind to a server.
func Add[T any, P Object[T]](s *Server, k Kind[T]) {
	made := &kind{version: s.Version, further: map[string]*further{}}
	made.definition, made.err = definition(s, &k)
	for n := range k.Versions {
		if made.err == nil {
			made.err = k.Versions[n].serve(made)
		}
	}
	if made.err == nil {
		made.err = complete(made.definition)
	}
	if k.Validate != nil {
		made.validate = typed(k.Validate)
	}
	if k.Functions != nil {
		made.source = newSource[T, P](k.Functions)
	}
	for n := range k.Subresources {
		made.err = errors.Join(made.err, made.connect(k.Subresources[n].untyped(made.stored)))
	}
	s.kinds = append(s.kinds, made)
}

// kind is a Kind without its type.
type kind struct {
	definition *apiextensionsv1.CustomResourceDefinition
	version    string                                                            // in which objects are stored
	further    map[string]*further                                               // the other versions
	validate   func(ctx context.Context, obj, old engine.Object) field.ErrorList // nil: there is none
	source     *source                                                           // nil: the objects are in the storage
	connects   []connect
	err        error // what is wrong with the kind
}

// definition makes the definition that a custom resource of the kind would have.
func definition[T any](s *Server, k *Kind[T]) (*apiextensionsv1.CustomResourceDefinition, error) {
	name := cmp.Or(k.Name, reflect.TypeFor[T]().Name())
	plural := cmp.Or(k.Plural, strings.ToLower(name)+"s")
	schema := k.Schema
	if schema == nil {
		var err error
		if schema, err = SchemaOf[T](); err != nil {
			return nil, fmt.Errorf("kind %s: %w", name, err)
		}
	}
	schema = schema.DeepCopy()
	schema.Description = cmp.Or(k.Doc, schema.Description)
	v := versionOf(s.Version, schema, k.Columns)
	v.Storage = true
	d := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + s.Group,
			Annotations: map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: "unapproved, it is no custom resource"}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: s.Group, Scope: apiextensionsv1.NamespaceScoped, Versions: []apiextensionsv1.CustomResourceDefinitionVersion{v},
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: name, Plural: plural, ShortNames: k.ShortNames, Categories: k.Categories},
		},
	}
	if k.ClusterScoped {
		d.Spec.Scope = apiextensionsv1.ClusterScoped
	}
	return d, nil
}

// complete fills in what a definition leaves out, and returns what is wrong with it.
func complete(d *apiextensionsv1.CustomResourceDefinition) error {
	rules := apiextensions.Resources()[0]
	rules.Versions[0].Default(d)
	rules.Rules.PrepareCreate(context.Background(), d)
	return rules.Rules.Validate(context.Background(), d).ToAggregate()
}

// fixed is the kind as an engine serves it.
func (k *kind) fixed(eng *engine.Engine) crd.Fixed {
	return crd.Fixed{Definition: k.definition, Engine: eng, Connects: k.described(), Convert: k.convert, Finish: func(r *engine.Resource) {
		if k.source != nil {
			k.source.limit(r)
		}
		for n := range k.connects {
			r.Subresources = append(r.Subresources, k.connects[n].subresource())
		}
		if k.validate == nil || r.Rules.Validate == nil {
			return
		}
		create, update := r.Rules.Validate, r.Rules.ValidateUpdate
		r.Rules.Validate = func(ctx context.Context, obj engine.Object) field.ErrorList {
			if errs := create(ctx, obj); len(errs) > 0 {
				return errs
			}
			return k.check(ctx, obj, nil)
		}
		r.Rules.ValidateUpdate = func(ctx context.Context, obj, old engine.Object) field.ErrorList {
			if errs := update(ctx, obj, old); len(errs) > 0 {
				return errs
			}
			return k.check(ctx, obj, old)
		}
	}}
}

// check asks the author's Validate.
func (k *kind) check(ctx context.Context, obj, old engine.Object) field.ErrorList {
	obj, err := k.stored(obj)
	if err == nil && old != nil {
		old, err = k.stored(old)
	}
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	return k.validate(ctx, obj, old)
}

// typed makes a validation of any objects out of one of T.
func typed[T any](validate func(ctx context.Context, obj, old *T) field.ErrorList) func(ctx context.Context, obj, old engine.Object) field.ErrorList {
	return func(ctx context.Context, obj, old engine.Object) field.ErrorList {
		var now, before *T
		err := into(&now, obj)
		if err == nil && old != nil {
			err = into(&before, old)
		}
		if err != nil {
			return field.ErrorList{field.InternalError(nil, err)}
		}
		return validate(ctx, now, before)
	}
}

// into makes a Go value of an object.
func into[T any](to **T, obj engine.Object) error {
	text, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	*to = new(T)
	return json.Unmarshal(text, *to)
}
