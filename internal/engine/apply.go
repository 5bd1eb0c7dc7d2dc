package engine

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// applied makes the hub object that a server-side apply asks for: the stored object merged
// with the manager's new configuration, without the fields that the manager applied before
// and no longer applies.
func (w *write) applied(ctx context.Context, kind types.PatchType, body []byte, options *metav1.PatchOptions, old Object) (Object, error) {
	config, strict, err := decodeConfig(kind, body, directive(options.FieldValidation) != metav1.FieldValidationIgnore)
	if err != nil {
		return nil, err
	}
	if err := boundQuantitiesIn(config.Object, w.V.New()); err != nil {
		return nil, err
	}
	m, err := w.fields()
	if err != nil {
		return nil, err
	}
	force := options.Force != nil && *options.Force
	out, err := m.Apply(ctx, old, config, options.FieldManager, force)
	if err != nil {
		return nil, err
	}
	if err := strictConfig(ctx, strict, options.FieldValidation); err != nil {
		return nil, err
	}
	obj, ok := out.(Object)
	if !ok {
		return nil, fmt.Errorf("apply made a %T", out)
	}
	if w.V == w.hub && w.V.ToHub != nil { // a merge of hub objects is converted by nobody else
		return w.V.ToHub(ctx, obj)
	}
	return obj, nil
}

// decodeConfig reads the body of an apply. With check it also returns the
// errors of fields that occur more than once, which CBOR cannot have.
func decodeConfig(kind types.PatchType, body []byte, check bool) (*unstructured.Unstructured, []error, error) {
	config := &unstructured.Unstructured{Object: map[string]any{}}
	if kind == types.ApplyCBORPatchType {
		_, err := unmarshalJSON(body, config, false)
		return config, nil, err
	}
	doc, strict, err := yamlToJSON(body, check)
	if s := apierrors.APIStatus(nil); errors.As(err, &s) {
		return nil, nil, err
	}
	if err == nil {
		_, err = unmarshalJSON(doc, config, false) // integers stay integers
	}
	if err != nil {
		return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: error converting YAML to JSON: %v", err))
	}
	return config, strict, nil
}

// strictConfig reports the errors that decodeConfig has found; unknown fields are an error
// of apply itself.
func strictConfig(ctx context.Context, strict []error, fieldValidation string) error {
	if len(strict) > 0 && directive(fieldValidation) == metav1.FieldValidationStrict {
		return apierrors.NewBadRequest(fmt.Sprintf("error strict decoding patch: error converting YAML to JSON: %v", errors.Join(strict...)))
	}
	warnStrict(ctx, strict)
	return nil
}
