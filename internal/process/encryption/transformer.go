package encryption

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/store"
)

// transformer transforms the values of a resource, as the configuration in force says.
type transformer struct {
	e        *Encryption
	resource schema.GroupResource
	name     string
}

// Transformer returns how values of a resource are stored. Events are core events, whatever version they are served in.
func (e *Encryption) Transformer(resource schema.GroupResource) store.Transformer {
	return &transformer{e, resource, resource.String()}
}

// ForKey returns how the value at a key is stored that belongs to a custom resource: "group/resource/…".
func (e *Encryption) ForKey(key string) store.Transformer {
	group, rest, _ := strings.Cut(key, "/")
	resource, _, _ := strings.Cut(rest, "/")
	return e.Transformer(schema.GroupResource{Group: group, Resource: resource})
}

// provider is what the resource has in the configuration in force.
func (t *transformer) provider() provider {
	s := t.e.current.Load()
	for _, gr := range []schema.GroupResource{t.resource, everythingIn(t.resource.Group), everything} {
		if o := s.resources[gr]; o != nil {
			return o
		}
	}
	return identity{}
}

// ToStorage is part of store.Transformer.
func (t *transformer) ToStorage(ctx context.Context, key string, value []byte) ([]byte, error) {
	return t.provider().seal(ctx, place{key: key, resource: t.name}, nil, value)
}

// FromStorage is part of store.Transformer.
func (t *transformer) FromStorage(ctx context.Context, key string, stored []byte) ([]byte, bool, error) {
	return t.provider().open(ctx, place{key: key, resource: t.name}, stored)
}

// None stores values as they are, and reads those only.
type None struct{}

// ToStorage is part of store.Transformer.
func (None) ToStorage(_ context.Context, _ string, value []byte) ([]byte, error) { return value, nil }

// FromStorage is part of store.Transformer.
func (None) FromStorage(ctx context.Context, _ string, stored []byte) ([]byte, bool, error) {
	return identity{}.open(ctx, place{}, stored)
}
