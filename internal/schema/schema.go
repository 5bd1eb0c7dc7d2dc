package schema

import (
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Options are what a schema is compiled with.
type Options struct {
	// PreserveUnknownFields is the field of that name of an old
	// CustomResourceDefinition: nothing is pruned.
	PreserveUnknownFields bool
	// Cache has the patterns and expressions that this schema shares with
	// others. Nil: it shares none.
	Cache *Cache
}

// Schema is the compiled schema of one version of a custom resource. It is
// immutable and safe for concurrent use; the objects that it is given are not
// its own.
type Schema struct {
	root     *node // nil: there is no schema
	preserve bool
	timing   Timing
	defaults int // how many values all defaults together have
	// converted makes the type for field management; see merge.go.
	converted func() *typed.ParseableType
}

// Compile compiles a schema; nil is that of a resource that has none, which
// only its metadata is known of. It is cheap enough to be put off to the first
// use of a resource: patterns and expressions wait for theirs. It fails for
// what no valid CustomResourceDefinition has.
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
