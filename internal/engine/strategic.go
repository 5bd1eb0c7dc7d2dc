package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/apitype"
	"github.com/kanzen-io/kanzen/internal/object/fieldmanager"
	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
	"github.com/kanzen-io/kanzen/internal/request"
)

// strategicMerge applies a strategic merge patch: by the plan of the type or, where that does not do, by the library, which merges
// maps. Only the fields that the patch names go through those; the others are copied.
func strategicMerge(ctx context.Context, current Object, body []byte, into Object, fieldValidation string) error {
	if mergedByPlan(jsonobject.StrategicMergePatch, current, body, into) {
		return nil
	}
	check := directive(fieldValidation) != metav1.FieldValidationIgnore
	patch := map[string]any{}
	strict, err := unmarshalJSON(body, &patch, check)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if err := boundQuantitiesIn(patch, into); err != nil {
		return err
	}
	part := partOf(current, patch)
	doc, err := part.document()
	if err != nil {
		return err
	}
	merged, err := strategicpatch.StrategicMergeMapPatch(doc, patch, into)
	if err != nil {
		return strategicError(err)
	}
	if err := part.decode(merged, into, check); err != nil {
		if s, ok := runtime.AsStrictDecodingError(err); ok {
			strict = append(strict, s.Errors()...)
		} else {
			if len(strict) > 0 {
				err = runtime.NewStrictDecodingError(append(strict, err))
			}
			return strategicInvalid(patch, err)
		}
	}
	fieldmanager.DropNulls(into)
	if len(strict) == 0 {
		return nil
	}
	if directive(fieldValidation) == metav1.FieldValidationStrict {
		return strategicInvalid(patch, runtime.NewStrictDecodingError(strict))
	}
	for _, err := range strict {
		request.AddWarning(ctx, err.Error())
	}
	return nil
}

// mergedByPlan makes an object by a patch without documents between. It reports false if that is left to the library, as all patches are in
// which there is something to tell the client.
func mergedByPlan(kind jsonobject.Patch, current Object, body []byte, into Object) bool {
	merged := current.DeepCopyObject()
	if !jsonobject.MergeInto(kind, body, merged) {
		return false
	}
	fieldmanager.DropNulls(merged)
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(merged).Elem())
	return true
}

func strategicInvalid(patch map[string]any, err error) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{
		field.Invalid(field.NewPath("patch"), fmt.Sprintf("%+v", patch), err.Error())})
}

func strategicError(err error) error {
	switch {
	case errors.Is(err, mergepatch.ErrBadJSONDoc), errors.Is(err, mergepatch.ErrBadPatchFormatForPrimitiveList),
		errors.Is(err, mergepatch.ErrBadPatchFormatForRetainKeys), errors.Is(err, mergepatch.ErrBadPatchFormatForSetElementOrderList),
		errors.Is(err, mergepatch.ErrUnsupportedStrategicMergePatchFormat):
		return apierrors.NewBadRequest(err.Error())
	case errors.Is(err, mergepatch.ErrNoListOfLists), errors.Is(err, mergepatch.ErrPatchContentNotMatchRetainKeys):
		return unprocessable(err)
	}
	return err
}

// part is the part of an object that a patch names: fields of the object, or fields of those.
type part struct {
	current Object
	fields  []partField
}

type partField struct {
	name  string
	below []string // nil: the whole field
}

// partOf finds the fields that a patch names. There are none if it may concern fields that it does not name.
func partOf(current Object, patch map[string]any) *part {
	p := &part{current: current}
	names, ok := namesOf(patch)
	if !ok {
		return p
	}
	p.fields = make([]partField, 0, len(names))
	for _, name := range names {
		f := partField{name: name}
		if below, ok := patch[name].(map[string]any); ok {
			f.below, _ = namesOf(below)
		}
		p.fields = append(p.fields, f)
	}
	return p
}

// namesOf returns the fields that an object of a patch names. It reports false if there is a directive for the others.
func namesOf(patch map[string]any) ([]string, bool) {
	names := make([]string, 0, len(patch))
	for name := range patch {
		if strings.HasPrefix(name, "$") {
			_, of, ok := strings.Cut(name, "/") // of a list
			if !ok {
				return nil, false
			}
			name = of
		}
		names = append(names, name)
	}
	return names, true
}

// document returns the part as a document to be merged into. Other fields in it are empty.
func (p *part) document() (map[string]any, error) {
	if p.fields == nil {
		return runtime.DefaultUnstructuredConverter.ToUnstructured(p.current)
	}
	of := reflect.ValueOf(p.current).Elem()
	sparse := reflect.New(of.Type())
	p.copy(sparse.Elem(), of)
	doc, err := runtime.DefaultUnstructuredConverter.ToUnstructured(sparse.Interface())
	if err != nil {
		return nil, err
	}
	for _, f := range p.fields {
		if _, ok := doc[f.name]; !ok && f.below != nil {
			// Whether the field is there is decided by what is in it, and not all of that is.
			p.fields = nil
			return p.document()
		}
	}
	return doc, nil
}

// decode reads the merged document into an object.
func (p *part) decode(doc map[string]any, into Object, strict bool) error {
	if p.fields == nil {
		return runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(doc, into, strict)
	}
	to := reflect.ValueOf(into).Elem()
	merged := reflect.New(to.Type())
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(doc, merged.Interface(), strict)
	to.Set(reflect.ValueOf(p.current.DeepCopyObject()).Elem())
	p.copy(to, merged.Elem())
	return err
}

// copy copies the part from an object to another of its type.
func (p *part) copy(to, from reflect.Value) {
	for i := range p.fields {
		f := &p.fields[i]
		copyField(to, from, f.name, f.below)
	}
}

func copyField(to, from reflect.Value, name string, below []string) {
	f := apitype.Of(to.Type()).Member(name)
	if f == nil {
		return // the decoder says what it thinks of it
	}
	to, from = f.In(to), f.In(from)
	if below == nil || f.Type.Kind != apitype.Struct {
		to.Set(from)
		return
	}
	for _, name := range below {
		copyField(to, from, name, nil)
	}
}
