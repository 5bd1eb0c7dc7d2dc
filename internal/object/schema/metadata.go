package schema

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// metadata decodes an object's metadata into its Go type. With drop, it leaves out fields of the wrong type. With
// report, it returns the paths of unknown fields.
func metadata(v any, path *field.Path, drop, report bool) (meta *metav1.ObjectMeta, unknown []string, err error) {
	text, err := utiljson.Marshal(v)
	if err != nil {
		return nil, nil, err
	}
	meta = &metav1.ObjectMeta{}
	unknown, err = read(text, meta, path, report)
	if err == nil {
		return meta, unknown, nil
	}
	if !drop {
		return nil, nil, err
	}
	fields, ok := v.(map[string]any)
	if !ok {
		return nil, nil, fmt.Errorf("invalid metadata: expected object, got %T", v)
	}
	meta, unknown = &metav1.ObjectMeta{}, nil
	for name, value := range fields {
		text, err := utiljson.Marshal(map[string]any{name: value})
		if err != nil || utiljson.Unmarshal(text, &metav1.ObjectMeta{}) != nil {
			continue
		}
		more, _ := read(text, meta, path, report) // cannot fail: it has just been read
		unknown = append(unknown, more...)
	}
	slices.Sort(unknown)
	return meta, unknown, nil
}

func read(text []byte, meta *metav1.ObjectMeta, path *field.Path, report bool) (unknown []string, err error) {
	if !report {
		return nil, utiljson.Unmarshal(text, meta)
	}
	strict, err := kjson.UnmarshalStrict(text, meta)
	for _, e := range strict {
		if at, ok := e.(kjson.FieldError); ok && err == nil {
			unknown = append(unknown, path.Child("metadata").String()+"."+at.FieldPath())
		}
	}
	return unknown, err
}

// setMetadata writes metadata back into an object.
func setMetadata(obj map[string]any, meta *metav1.ObjectMeta) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(meta)
	if err != nil {
		return err
	}
	obj["metadata"] = fields
	return nil
}

// isCanonical reports whether reading metadata and writing it back would not change it. It may return false although
// that is the case.
func isCanonical(v any) bool {
	fields, ok := v.(map[string]any)
	if !ok {
		return false
	}
	for name, v := range fields {
		if !isCanonicalField(name, v) {
			return false
		}
	}
	return true
}

func isCanonicalField(name string, v any) bool {
	switch name {
	case "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion":
		return isText(v)
	case "generation":
		n, is := v.(int64)
		return is && n != 0
	case "creationTimestamp", "deletionTimestamp":
		return isTime(v)
	case "labels", "annotations":
		return isTexts(v)
	case "finalizers":
		list, is := v.([]any)
		return is && len(list) > 0 && each(list, func(v any) bool { _, ok := v.(string); return ok })
	case "ownerReferences":
		list, is := v.([]any)
		return is && len(list) > 0 && each(list, isOwner)
	case "managedFields":
		list, is := v.([]any)
		return is && len(list) > 0 && each(list, isManager)
	}
	return false
}

func each(list []any, is func(any) bool) bool {
	for _, v := range list {
		if !is(v) {
			return false
		}
	}
	return true
}

func isText(v any) bool {
	s, ok := v.(string)
	return ok && s != ""
}

func isTexts(v any) bool {
	m, ok := v.(map[string]any)
	if !ok || len(m) == 0 {
		return false
	}
	for _, v := range m {
		if _, ok := v.(string); !ok {
			return false
		}
	}
	return true
}

// isTime reports whether v is a time in the canonical form.
func isTime(v any) bool {
	s, ok := v.(string)
	if !ok || len(s) != len("2006-01-02T15:04:05Z") || s[len(s)-1] != 'Z' {
		return false
	}
	t, err := time.Parse(time.RFC3339, s)
	return err == nil && !t.IsZero()
}

// isOwner reports whether v is an owner reference with all fields that are always written.
func isOwner(v any) bool {
	fields, ok := v.(map[string]any)
	if !ok {
		return false
	}
	always := 0
	for name, v := range fields {
		switch name {
		case "apiVersion", "kind", "name", "uid":
			_, ok = v.(string)
			always++
		case "controller", "blockOwnerDeletion":
			_, ok = v.(bool)
		default:
			ok = false
		}
		if !ok {
			return false
		}
	}
	return always == 4
}

func isManager(v any) bool {
	fields, ok := v.(map[string]any)
	if !ok {
		return false
	}
	for name, v := range fields {
		if !isManagerField(name, v) {
			return false
		}
	}
	return true
}

func isManagerField(name string, v any) bool {
	switch name {
	case "manager", "operation", "apiVersion", "fieldsType", "subresource":
		return isText(v)
	case "time":
		return isTime(v)
	case "fieldsV1":
		set, is := v.(map[string]any)
		return is && len(set) > 0
	}
	return false
}
