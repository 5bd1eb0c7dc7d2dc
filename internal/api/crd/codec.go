package crd

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
	"github.com/kanzen-io/kanzen/internal/object/schema"
)

type object = *unstructured.Unstructured

// codec encodes and decodes stored objects for requests in one version.
type codec struct {
	serving *serving
	version string
}

// Decode is part of engine.Codec. It adapts objects that were stored under another schema: it removes fields that are
// now unknown, and sets defaults that were added later.
func (c codec) Decode(ctx context.Context, value []byte) (engine.Object, error) {
	u, err := c.serving.decode(value)
	if err != nil {
		return nil, err
	}
	return c.serving.converted(ctx, u, c.version)
}

// Canonical is part of engine.CanonicalCodec.
func (c codec) Canonical(value []byte) (at int, ok bool) {
	compiled, err := c.serving.schema(c.version)
	if err != nil {
		return 0, false // Decode will return the error
	}
	return compiled.Canonical(value, c.serving.def.gv(c.version).String())
}

// batchCodec is a codec for versions that a webhook converts.
type batchCodec struct{ codec }

// DecodeAll is part of engine.BatchCodec. It makes one call for all objects.
func (c batchCodec) DecodeAll(ctx context.Context, values [][]byte) ([]engine.Object, error) {
	objs := make([]object, len(values))
	for n, v := range values {
		err := ctx.Err()
		if err != nil {
			return nil, err
		}
		if objs[n], err = c.serving.decode(v); err != nil {
			return nil, err
		}
	}
	objs, err := c.serving.convertAll(ctx, objs, c.version)
	if err != nil {
		return nil, err
	}
	out := make([]engine.Object, len(objs))
	for n := range objs {
		out[n] = objs[n]
	}
	return out, nil
}

// decode decodes stored bytes to an object in the stored version.
func (s *serving) decode(value []byte) (object, error) {
	content, err := jsonobject.Unmarshal(value)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: content}
	stored, err := s.versionOf(u)
	if err != nil {
		return nil, err
	}
	c, err := s.schema(stored)
	if err != nil {
		return nil, err
	}
	if _, err := c.Coerce(u.Object, schema.CoerceOptions{DropInvalid: true, RepairGeneration: true}); err != nil {
		return nil, err
	}
	c.Default(u.Object)
	return u, nil
}

// Encode is part of engine.Codec.
func (c codec) Encode(ctx context.Context, obj engine.Object) ([]byte, error) {
	to := c.serving.def.storage()
	if to != c.version {
		var err error
		if obj, err = c.serving.converted(ctx, obj.DeepCopyObject().(engine.Object), to); err != nil {
			return nil, err
		}
	}
	b, err := jsonobject.Marshal(content(obj))
	return append(b, '\n'), err
}

// versionOf returns the version of an object.
func (s *serving) versionOf(u object) (string, error) {
	gv, err := apischema.ParseGroupVersion(u.GetAPIVersion())
	if err != nil {
		return "", err
	}
	if s.def.version(gv.Version) == nil || gv.Group != s.def.group {
		return "", fmt.Errorf("request to convert CR from an invalid group/version: %s", gv)
	}
	return gv.Version, nil
}

// prune removes fields that a version's schema does not contain from a client's object.
func (s *serving) prune(obj map[string]any, version string) ([]string, error) {
	c, err := s.schema(version)
	if err != nil {
		return nil, err
	}
	return c.Coerce(obj, schema.CoerceOptions{ReportUnknown: true})
}

// converted returns obj in another version. It may change obj.
func (s *serving) converted(ctx context.Context, obj engine.Object, to string) (engine.Object, error) {
	out, err := s.convertAll(ctx, []object{obj.(object)}, to)
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// convertAll converts the objects that are not in a version yet. It may change the objects and the slice. It gives up when ctx
// ends, which is the request that needs the objects.
func (s *serving) convertAll(ctx context.Context, objs []object, to string) ([]object, error) {
	gv := s.def.gv(to).String()
	var others []object
	var at []int // their indexes in objs
	for n, u := range objs {
		if u.GetAPIVersion() != gv {
			others, at = append(others, u), append(at, n)
		}
	}
	if len(others) == 0 {
		return objs, nil
	}
	c, err := s.schema(to)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	others, err = s.convert(ctx, others, gv)
	if err != nil {
		return nil, cmp.Or(ctx.Err(), err) // a webhook that was not waited for has not failed
	}
	for n, u := range others {
		if _, err := c.Coerce(u.Object, schema.CoerceOptions{}); err != nil {
			return nil, err
		}
		objs[at[n]] = u
	}
	return objs, nil
}
