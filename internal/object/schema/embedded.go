package schema

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// resources reports errors in the apiVersion, kind and metadata of embedded resources.
func (c *collector) resources(n *node, v any, path *field.Path) {
	if !n.is(hasEmbedded) || c.full() {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		if n.is(embedded) {
			c.add(resource(v, path)...)
		}
		for p, value := range n.fields(v, hasEmbedded) {
			c.resources(p.node, value, path.Child(p.name))
		}
		if n.extra != nil && n.extra.is(hasEmbedded) {
			for name, value := range v {
				c.resources(n.extra, value, path.Key(name))
			}
		}
	case []any:
		if n.items == nil || !n.items.is(hasEmbedded) {
			return
		}
		for i := range v {
			c.resources(n.items, v[i], path.Index(i))
		}
	}
}

func resource(obj map[string]any, path *field.Path) field.ErrorList {
	errs := append(typeField(obj, "apiVersion", path, func(s string) string {
		if _, err := runtimeschema.ParseGroupVersion(s); err != nil {
			return err.Error()
		}
		return ""
	}), typeField(obj, "kind", path, func(s string) string {
		if msgs := validation.IsDNS1035Label(strings.ToLower(s)); len(msgs) > 0 {
			return "may have mixed case, but should otherwise match: " + strings.Join(msgs, ",")
		}
		return ""
	})...)
	v, ok := obj["metadata"]
	if !ok {
		return errs
	}
	at := path.Child("metadata")
	meta, _, err := metadata(v, path, false, false)
	if err != nil {
		return append(errs, field.Invalid(at, v, err.Error()))
	}
	if meta.Name == "" {
		meta.Name = "any" // optional in an embedded resource
	}
	return append(errs, metavalidation.ValidateObjectMeta(meta, meta.Namespace != "", pathSegment, at)...)
}

// typeField validates apiVersion or kind; wrong returns the error in a non-empty string.
func typeField(obj map[string]any, name string, path *field.Path, wrong func(string) string) field.ErrorList {
	at := path.Child(name)
	v, ok := obj[name]
	if !ok {
		return field.ErrorList{field.Required(at, "")}
	}
	s, ok := v.(string)
	switch {
	case !ok:
		return field.ErrorList{field.Invalid(at, v, "must be a string")}
	case s == "":
		return field.ErrorList{field.Invalid(at, s, "must not be empty")}
	}
	if text := wrong(s); text != "" {
		return field.ErrorList{field.Invalid(at, s, text)}
	}
	return nil
}

func pathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}
