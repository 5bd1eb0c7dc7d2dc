package engine

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kanzen-io/kanzen/internal/request"
)

// applied makes the hub object that a server-side apply asks for: the stored
// object with what the manager now says laid over it, and what it said before
// and no longer says taken out.
func (c *call) applied(ctx context.Context, body []byte, options *metav1.PatchOptions, old Object) (Object, error) {
	config, err := decodeConfig(body)
	if err != nil {
		return nil, err
	}
	m, err := c.fields()
	if err != nil {
		return nil, err
	}
	force := options.Force != nil && *options.Force
	out, err := m.Apply(old.DeepCopyObject(), config, options.FieldManager, force)
	if err != nil {
		return nil, err
	}
	if err := c.strictConfig(ctx, body, options.FieldValidation); err != nil {
		return nil, err
	}
	obj, ok := out.(Object)
	if !ok {
		return nil, fmt.Errorf("apply made a %T", out)
	}
	return obj, nil
}

// decodeConfig reads the body of an apply.
func decodeConfig(body []byte) (*unstructured.Unstructured, error) {
	config := &unstructured.Unstructured{Object: map[string]any{}}
	doc, err := yaml.YAMLToJSON(body)
	if err == nil {
		_, err = unmarshalJSON(doc, config, false) // integers stay integers
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
	}
	return config, nil
}

// strictConfig looks for duplicate keys; unknown fields are an error of apply itself.
func (c *call) strictConfig(ctx context.Context, body []byte, fieldValidation string) error {
	d := directive(fieldValidation)
	if d == metav1.FieldValidationIgnore {
		return nil
	}
	err := yaml.UnmarshalStrict(body, &map[string]any{})
	if err == nil {
		return nil
	}
	if d == metav1.FieldValidationStrict {
		return apierrors.NewBadRequest(fmt.Sprintf("error strict decoding YAML: %v", err))
	}
	for _, err := range yamlErrors(err) {
		request.AddWarning(ctx, err.Error())
	}
	return nil
}
