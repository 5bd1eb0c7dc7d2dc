package openapi

import (
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/api/catalog"
	builtin "github.com/kanzen-io/kanzen/internal/api/openapi"
)

// Builder generates documents. It is safe for concurrent use.
type Builder struct {
	v3 func() (*common, error)
	v2 func() (*common, error)
}

// NewBuilder returns a builder that takes the common parts from the documents in s, on first use.
func NewBuilder(s *builtin.Set) *Builder {
	return &Builder{
		v3: sync.OnceValues(func() (*common, error) { return commonV3(s) }),
		v2: sync.OnceValues(func() (*common, error) { return commonV2(s) }),
	}
}

// Parts returns what the custom resources of a catalog add to the built-in documents. Their content is generated on
// demand.
func (b *Builder) Parts(c *catalog.Catalog) []builtin.Part {
	byGV := map[schema.GroupVersion][]*catalog.Definition{}
	var order []schema.GroupVersion
	for r := range c.All() {
		if r.Definition == nil || !r.Listed {
			continue
		}
		for _, version := range r.Versions {
			gv := schema.GroupVersion{Group: r.Group, Version: version}
			if byGV[gv] == nil {
				order = append(order, gv)
			}
			byGV[gv] = append(byGV[gv], r.Definition)
		}
	}
	parts := make([]builtin.Part, 0, len(order))
	for _, gv := range order {
		parts = append(parts, b.Part(gv.Group, gv.Version, time.Time{}, byGV[gv]))
	}
	return parts
}

// Part returns what the custom resources of a group and version, defined by the sources, add to the built-in documents.
// at is the time of their last change.
func (b *Builder) Part(group, version string, at time.Time, sources []*catalog.Definition) builtin.Part {
	h := sha512.New()
	_, _ = fmt.Fprintln(h, group, version)
	for _, s := range sources {
		_, _ = fmt.Fprintln(h, s.Hash())
	}
	hash := fmt.Sprintf("%X", h.Sum(nil))
	return builtin.Part{
		Documents: []builtin.Document{{
			Path: "apis/" + group + "/" + version, Hash: hash, Modified: at,
			JSON: func() ([]byte, error) { return b.document(version, sources) },
		}},
		V2:     func() (*builtin.Fragment, error) { return b.fragment(version, sources) },
		V2Hash: hash,
	}
}

// object is a JSON object.
type object = map[string]any

// document generates a v3 document.
func (b *Builder) document(version string, sources []*catalog.Definition) ([]byte, error) {
	c, err := b.v3()
	if err != nil {
		return nil, err
	}
	paths, schemas := object{}, object{}
	for _, s := range sources {
		k, err := load(s, version, c)
		if err != nil {
			return nil, err
		}
		maps.Copy(paths, k.paths())
		maps.Copy(schemas, k.definitions())
		for name, common := range c.schemas {
			if k.scale || !isScale(name) {
				schemas[name] = common
			}
		}
	}
	return json.Marshal(object{
		"openapi":    "3.0.0",
		"info":       object{"title": "Kubernetes CRD Swagger", "version": "v0.1.0"},
		"paths":      paths,
		"components": object{"schemas": schemas},
	})
}

// fragment generates the addition to the v2 document.
func (b *Builder) fragment(version string, sources []*catalog.Definition) (*builtin.Fragment, error) {
	c, err := b.v2()
	if err != nil {
		return nil, err
	}
	f := &builtin.Fragment{Paths: map[string]json.RawMessage{}, Definitions: map[string]json.RawMessage{}}
	for _, s := range sources {
		k, err := load(s, version, c)
		if err != nil {
			return nil, err
		}
		if err := encodeInto(f.Paths, k.paths()); err != nil {
			return nil, err
		}
		if err := encodeInto(f.Definitions, k.definitions()); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func encodeInto(to map[string]json.RawMessage, from object) error {
	for name, v := range from {
		b, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("OpenAPI of %s: %w", name, err)
		}
		to[name] = b
	}
	return nil
}
