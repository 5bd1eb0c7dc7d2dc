package openapi

import (
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	builtin "github.com/kanzen-io/kanzen/internal/openapi"
)

// Source is where a CustomResourceDefinition comes from.
type Source struct {
	// Hash names its content: it changes whenever the spec does.
	Hash string
	// Load returns it. It is called each time a document is made, and what it
	// returns is not changed.
	Load func() (*apiextensionsv1.CustomResourceDefinition, error)
}

// Builder makes documents. It is safe for concurrent use.
type Builder struct {
	v3 func() (*common, error)
	v2 func() (*common, error)
}

// NewBuilder returns a builder that takes what all resources have in common
// from the documents in a set; it reads them on first use.
func NewBuilder(s *builtin.Set) *Builder {
	return &Builder{
		v3: sync.OnceValues(func() (*common, error) { return commonV3(s) }),
		v2: sync.OnceValues(func() (*common, error) { return commonV2(s) }),
	}
}

// Part is what the custom resources of a group and version, which the sources
// define, add to the documents of the built-in kinds. at is since when they do.
func (b *Builder) Part(group, version string, at time.Time, sources []Source) builtin.Part {
	h := sha512.New()
	_, _ = fmt.Fprintln(h, group, version)
	for _, s := range sources {
		_, _ = fmt.Fprintln(h, s.Hash)
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

// document makes a v3 document.
func (b *Builder) document(version string, sources []Source) ([]byte, error) {
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
		for name, schema := range c.schemas {
			if k.scale || !isScale(name) {
				schemas[name] = schema
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

// fragment makes what is added to the v2 document.
func (b *Builder) fragment(version string, sources []Source) (*builtin.Fragment, error) {
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
