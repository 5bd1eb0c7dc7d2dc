package openapi

import (
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/api/openapi"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/goschema"
)

// This file makes the OpenAPI documents of resources of this server that kube-apiserver does not have. The documents of
// the others are recorded; these follow from the Go types.

// Derived returns what the resources add to the OpenAPI documents. Each has one version.
func (b *Builder) Derived(at time.Time, resources []*engine.Resource) ([]openapi.Part, error) {
	byGV := map[schema.GroupVersion][]*catalog.Definition{}
	var order []schema.GroupVersion
	for _, res := range resources {
		d, err := derived(res)
		if err != nil {
			return nil, err
		}
		if byGV[res.Hub] == nil {
			order = append(order, res.Hub)
		}
		byGV[res.Hub] = append(byGV[res.Hub], d)
	}
	var parts []openapi.Part
	for _, gv := range order {
		parts = append(parts, b.Part(gv.Group, gv.Version, at, byGV[gv]))
	}
	return parts, nil
}

// derived describes a resource as if a CustomResourceDefinition did.
func derived(res *engine.Resource) (*catalog.Definition, error) {
	v := res.Versions[0]
	described, err := goschema.Of(reflect.TypeOf(v.New()).Elem())
	if err != nil {
		return nil, fmt.Errorf("OpenAPI of %s: %w", res.Plural, err)
	}
	described.Required = slices.DeleteFunc(described.Required, func(name string) bool { return name == "status" }) // clients leave it to the server
	d := &apiextensionsv1.CustomResourceDefinition{}
	d.Name = res.Plural + "." + v.Group
	d.Spec.Group, d.Spec.Scope = v.Group, apiextensionsv1.ClusterScoped
	if res.Namespaced {
		d.Spec.Scope = apiextensionsv1.NamespaceScoped
	}
	d.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: res.Plural, Singular: res.Singular, Kind: res.Kind, ListKind: res.Kind + "List"}
	d.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{
		{Name: v.Version, Served: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: described}}}
	verbs := slices.Clone(res.Verbs)
	text, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	hash := fmt.Sprintf("%X", sha512.Sum512(fmt.Append(text, verbs)))
	return &catalog.Definition{
		Hash:  func() string { return hash },
		Load:  func() (*apiextensionsv1.CustomResourceDefinition, error) { return d, nil },
		Verbs: verbs,
	}, nil
}
