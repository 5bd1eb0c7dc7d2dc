package schema

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// CoerceOptions are the options of Coerce.
type CoerceOptions struct {
	// DropInvalid drops metadata fields of the wrong type. It is for objects from etcd and from conversions; those of
	// clients are rejected.
	DropInvalid bool
	// ReportUnknown requests the paths of unknown fields.
	ReportUnknown bool
	// RepairGeneration sets a missing generation to 1, for objects in etcd that predate generations.
	RepairGeneration bool
}

// Coerce does to an object of the schema's kind what decoding into a Go type does to built-in kinds: it removes unknown
// fields, as Prune does, and gives metadata (also that of embedded resources) its fixed fields and types. It returns
// the paths of unknown fields: of metadata, then of other fields, then of the metadata of embedded resources, each
// sorted. The error describes what is wrong with metadata, apiVersion or kind, here or in an embedded resource, or is
// ErrTooManyDefaults.
func (s *Schema) Coerce(obj map[string]any, o CoerceOptions) (unknown []string, err error) {
	for _, name := range []string{"kind", "apiVersion"} {
		if _, _, err := unstructured.NestedString(obj, name); err != nil {
			return nil, err
		}
	}
	var meta *metav1.ObjectMeta
	v, found := obj["metadata"]
	if found && !isCanonical(v) {
		if meta, unknown, err = metadata(v, nil, o.DropInvalid, o.ReportUnknown); err != nil {
			return nil, err
		}
	}
	p := s.prune(obj, o.ReportUnknown)
	unknown = append(unknown, p.unknown...)
	if err := s.checkDefaults(obj, p.parts); err != nil {
		return nil, err
	}
	if s.root != nil && s.root.is(hasEmbedded) {
		c := coercer{drop: o.DropInvalid, report: o.ReportUnknown}
		if err := c.value(s.root, obj, nil); err != nil {
			return nil, err
		}
		slices.Sort(c.unknown)
		unknown = append(unknown, c.unknown...)
	}
	switch {
	case !found:
	case meta == nil:
		obj["metadata"] = v // pruning and coercing do not touch the root's
	default:
		if err := setMetadata(obj, meta); err != nil {
			return nil, err
		}
	}
	if o.RepairGeneration && found {
		if fields, ok := obj["metadata"].(map[string]any); ok && fields["generation"] == nil {
			fields["generation"] = int64(1)
		}
	}
	return unknown, nil
}

// coerce coerces the metadata of the root and of embedded resources.
func (s *Schema) coerce(obj map[string]any, drop bool) error {
	c := coercer{drop: drop}
	if err := c.resource(obj, nil); err != nil {
		return err
	}
	if err := c.value(s.root, obj, nil); err != nil {
		return err
	}
	return nil
}

// coercer coerces the metadata of embedded resources.
type coercer struct {
	drop, report bool
	unknown      []string
}

func (c *coercer) value(n *node, v any, path *field.Path) *field.Error {
	if !n.is(hasEmbedded) {
		return nil
	}
	switch v := v.(type) {
	case map[string]any:
		if n.is(embedded) {
			if err := c.resource(v, path); err != nil {
				return err
			}
		}
		for p, value := range n.fields(v, hasEmbedded) {
			if err := c.value(p.node, value, path.Child(p.name)); err != nil {
				return err
			}
		}
		if n.extra == nil || !n.extra.is(hasEmbedded) {
			return nil
		}
		for name, value := range v {
			if err := c.value(n.extra, value, path.Key(name)); err != nil {
				return err
			}
		}
	case []any:
		if n.items == nil || !n.items.is(hasEmbedded) {
			return nil
		}
		for i, item := range v {
			if err := c.value(n.items, item, path.Index(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// resource coerces a resource's apiVersion, kind and metadata.
func (c *coercer) resource(obj map[string]any, path *field.Path) *field.Error {
	for _, name := range []string{"apiVersion", "kind"} {
		v, ok := obj[name]
		if !ok {
			continue
		}
		if _, ok := v.(string); !ok {
			if !c.drop {
				return field.Invalid(path.Child(name), v, "must be a string")
			}
			delete(obj, name)
		}
	}
	v, ok := obj["metadata"]
	if !ok || isCanonical(v) {
		return nil
	}
	meta, unknown, err := metadata(v, path, c.drop, c.report)
	c.unknown = append(c.unknown, unknown...)
	if err == nil {
		err = setMetadata(obj, meta)
	} else if c.drop {
		return nil // validation reports a value that is not an object
	}
	if err != nil {
		return field.Invalid(path.Child("metadata"), v, fmt.Sprint(err))
	}
	return nil
}
