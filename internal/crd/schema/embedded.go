package schema

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// resources reports what is wrong with the apiVersion, kind and metadata of
// embedded resources.
func (n *node) resources(v any, path *field.Path) (errs field.ErrorList) {
	if !n.is(hasEmbedded) {
		return nil
	}
	switch v := v.(type) {
	case map[string]any:
		if n.is(embedded) {
			errs = resource(v, path)
		}
		for _, p := range n.props {
			if value, ok := v[p.name]; ok && p.is(hasEmbedded) {
				errs = append(errs, p.resources(value, path.Child(p.name))...)
			}
		}
		if n.extra != nil && n.extra.is(hasEmbedded) {
			for name, value := range v {
				errs = append(errs, n.extra.resources(value, path.Key(name))...)
			}
		}
	case []any:
		if n.items == nil || !n.items.is(hasEmbedded) {
			return errs
		}
		for i := range v {
			errs = append(errs, n.items.resources(v[i], path.Index(i))...)
		}
	}
	return errs
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
		meta.Name = "any" // an embedded resource needs none
	}
	return append(errs, metavalidation.ValidateObjectMeta(meta, meta.Namespace != "", pathSegment, at)...)
}

// typeField checks a field that every resource has; wrong says what is wrong
// with a text that is not empty.
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
