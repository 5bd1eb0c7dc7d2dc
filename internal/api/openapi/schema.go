package openapi

import (
	"encoding/json"
	"slices"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Schema returns the schema of a kind with its references inlined, or nil if there is none. It parses the whole
// document of the kind's group and version, which is slow.
func (s *Set) Schema(kind runtimeschema.GroupVersionKind) (*spec.Schema, error) {
	path := "apis/" + kind.GroupVersion().String()
	if kind.Group == "" {
		path = "api/" + kind.Version
	}
	d, ok := s.Document(path)
	if !ok {
		return nil, nil
	}
	b, err := d.JSON()
	if err != nil {
		return nil, err
	}
	var doc struct {
		Components struct {
			Schemas map[string]*spec.Schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return nil, err
	}
	for name, of := range doc.Components.Schemas {
		var kinds []runtimeschema.GroupVersionKind
		if err := of.Extensions.GetObject("x-kubernetes-group-version-kind", &kinds); err != nil {
			return nil, err
		}
		if slices.Contains(kinds, kind) {
			return (&inliner{doc.Components.Schemas, map[string]bool{}}).named(name)
		}
	}
	return nil, nil
}
