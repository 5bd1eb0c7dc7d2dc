package schema

import (
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Options are the options of Compile.
type Options struct {
	// PreserveUnknownFields is the field of that name in an old CustomResourceDefinition: nothing is pruned.
	PreserveUnknownFields bool
	// Cache holds the patterns and expressions that this schema shares with others. Nil: none are shared.
	Cache *Cache
}

// Schema is the compiled schema of one version of a custom resource. It is immutable and safe for concurrent use;
// callers own the objects that they pass.
type Schema struct {
	root     *node // nil: there is no schema
	preserve bool
	timing   Timing
	defaults int // number of values in all defaults
	// converted returns the merge type; see merge.go.
	converted func() *typed.ParseableType
}

// Compile compiles a schema; nil is the schema of a resource without one, for which only metadata is known. It is cheap
// enough to run on a resource's first use, because patterns and expressions are compiled on their own first use. It
// fails only for schemas that no valid CustomResourceDefinition has.
func Compile(p *apiextensionsv1.JSONSchemaProps, o Options) (*Schema, error) {
	s := &Schema{preserve: o.PreserveUnknownFields}
	if p != nil {
		c := compiler{cache: o.Cache}
		if c.cache == nil {
			c.cache = NewCache(Timing{})
		}
		s.timing = c.cache.timing
		root, err := c.build(p)
		if err != nil {
			return nil, err
		}
		root.flags |= isRoot
		if !o.PreserveUnknownFields {
			s.root = root
			s.pruneDefaults()
		}
		s.defaults = root.defaultValues()
		s.root = c.intern(root)
	}
	s.converted = sync.OnceValue(s.convert)
	return s, nil
}
