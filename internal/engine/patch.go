package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
	boundedpatch "github.com/kanzen-io/kanzen/internal/object/jsonpatch"
	"github.com/kanzen-io/kanzen/internal/request"
)

// maxOperations bounds a JSON patch.
const maxOperations = 10000

// patch changes an object by one of four kinds of patches.
func (c *call) patch() error {
	kind, err := c.patchKind()
	if err != nil {
		return err
	}
	if c.sub != nil && c.sub.Scale != nil {
		return c.patchScale(kind)
	}
	out, err := negotiate(c.req, c.restrict())
	if err != nil {
		return err
	}
	body, options, err := c.patchBody(kind)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.req.Context(), writeTimeout)
	defer cancel()
	res, err := c.changeObject(ctx, &change{
		rules: c.rules(), create: applies(kind),
		options: &metav1.UpdateOptions{DryRun: options.DryRun, FieldManager: options.FieldManager, FieldValidation: options.FieldValidation},
		mutate: func(ctx context.Context, old Object, exists bool) (Object, error) {
			return c.patched(ctx, kind, body, options, old, exists)
		},
	})
	if err == nil {
		c.span.Event("Object stored in database")
	}
	return c.answer(out, res, err)
}

// patchKind reads the Content-Type of a patch.
func (c *call) patchKind() (types.PatchType, error) {
	kinds := []types.PatchType{types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType, types.ApplyYAMLPatchType}
	if !c.typed {
		kinds = []types.PatchType{types.JSONPatchType, types.MergePatchType, types.ApplyYAMLPatchType}
	}
	if c.info.CBOR {
		kinds = append(kinds, types.ApplyCBORPatchType)
	}
	ct, _, _ := strings.Cut(c.req.Header.Get("Content-Type"), ";")
	var names []string
	for _, k := range kinds {
		if string(k) == ct {
			return k, nil
		}
		names = append(names, string(k))
	}
	if c.typed { // kube-apiserver's router refuses it
		return "", apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "", schema.GroupResource{}, "", "415: Unsupported Media Type", 0, false)
	}
	return "", unsupportedMedia(names)
}

// applies says that a patch is a server-side apply.
func applies(kind types.PatchType) bool {
	return kind == types.ApplyYAMLPatchType || kind == types.ApplyCBORPatchType
}

// patchBody reads a patch and its options. What is sent as CBOR is JSON from here on.
func (c *call) patchBody(kind types.PatchType) ([]byte, *metav1.PatchOptions, error) {
	body, err := c.body()
	if err != nil {
		return nil, nil, err
	}
	options := &metav1.PatchOptions{}
	if err := c.decodeQuery(options); err != nil {
		return nil, nil, err
	}
	if err := invalidOptions("PatchOptions", validation.ValidatePatchOptions(options, kind)); err != nil {
		return nil, nil, err
	}
	// The audit log has what is in JSON, and nothing is looked at for a patch that cannot be read.
	switch kind {
	case types.ApplyYAMLPatchType:
	case types.ApplyCBORPatchType:
		if body, err = configFromCBOR(body); err != nil {
			return nil, nil, err
		}
	default:
		if !json.Valid(body) {
			return nil, nil, apierrors.NewBadRequest("invalid JSON patch")
		}
	}
	if a := request.AuditFrom(c.req.Context()); a.Wants(request.AuditRequest) {
		a.Request(nil, func() ([]byte, error) {
			if kind != types.ApplyYAMLPatchType {
				return body, nil
			}
			doc, _, err := yamlToJSON(body, false)
			return doc, err
		})
	}
	return body, options, nil
}

// patched makes the object that a patch asks for, tracked and admitted.
func (w *write) patched(ctx context.Context, kind types.PatchType, body []byte, options *metav1.PatchOptions, old Object, exists bool) (Object, error) {
	w.span.Event("About to apply patch")
	var obj Object
	var err error
	switch {
	case applies(kind):
		obj, err = w.applied(ctx, kind, body, options, old)
	case !exists:
		return nil, apierrors.NewNotFound(w.gr(), w.name)
	default:
		if obj, err = w.applyPatch(ctx, kind, body, options, old); err == nil {
			obj, err = w.track(ctx, old, obj, options.FieldManager)
		}
	}
	if err != nil {
		return nil, err
	}
	if !exists {
		if err := w.noUID(obj); err != nil {
			return nil, err
		}
	}
	if err := w.fitNamespace(obj); err != nil {
		return nil, err
	}
	if err := w.fitName(obj); err != nil {
		return nil, err
	}
	w.span.Event("About to check admission control")
	uo := &metav1.UpdateOptions{DryRun: options.DryRun, FieldManager: options.FieldManager, FieldValidation: options.FieldValidation}
	return w.admit(ctx, obj, old, exists, uo)
}

// applyPatch makes the hub object that a JSON, merge or strategic merge patch
// asks for.
func (w *write) applyPatch(ctx context.Context, kind types.PatchType, body []byte, options *metav1.PatchOptions, old Object) (Object, error) {
	current := old
	if w.V.FromHub != nil {
		var err error
		if current, err = w.fromHub(ctx, old.DeepCopyObject().(Object)); err != nil {
			return nil, err
		}
	}
	var err error
	obj := w.V.New()
	if kind == types.StrategicMergePatchType {
		err = strategicMerge(ctx, current, body, obj, options.FieldValidation)
	} else {
		err = jsonPatched(ctx, kind, current, body, obj, options.FieldValidation, w.V.Prune)
	}
	if err != nil {
		return nil, err
	}
	if want := current.GetObjectKind().GroupVersionKind(); w.typed {
		// A strategic merge patch never changes the kind, whatever the patch
		// says.
		if kind != types.StrategicMergePatchType {
			if err := w.checkPatchedType(obj, want, body); err != nil {
				return nil, err
			}
		}
		obj.GetObjectKind().SetGroupVersionKind(want)
	}
	return w.incoming(ctx, obj)
}

// checkPatchedType refuses an object of a Go type whose kind or version a JSON patch or a merge patch has changed. Clients know the words for a
// version that was taken away from a built-in kind: kube-apiserver finds nothing in such an object, and so no name.
func (w *write) checkPatchedType(obj Object, want schema.GroupVersionKind, body []byte) error {
	if err := stillOfType(obj, want); err != nil {
		return patchInvalid(body, err)
	}
	if w.typed && obj.GetObjectKind().GroupVersionKind().Version == "" {
		return w.nameless()
	}
	return nil
}

// jsonPatched applies a JSON patch or a merge patch.
func jsonPatched(ctx context.Context, kind types.PatchType, current Object, body []byte, into Object,
	fieldValidation string, prune func(Object) ([]string, error)) error {
	check := directive(fieldValidation) != metav1.FieldValidationIgnore
	if prune == nil && patchedByType(kind, current, body, into, check) {
		return nil
	}
	before, err := marshalJSON(current)
	if err != nil {
		return err
	}
	apply := mergePatch
	if kind == types.JSONPatchType {
		apply = jsonPatch
	}
	doc, strict, err := apply(before, body, check)
	if err != nil {
		return err
	}
	invalid := func(err error) error {
		if kind == types.MergePatchType {
			// The error message shows the document with its names in the
			// library's order.
			doc, _ = jsonpatch.MergePatch(before, body)
		}
		return patchInvalid(doc, err)
	}
	more, err := unmarshalJSON(doc, into, check)
	if err != nil {
		return invalid(err)
	}
	if u, untyped := into.(*unstructured.Unstructured); untyped && u.GetKind() == "" {
		return invalid(runtime.NewMissingKindErr(string(doc)))
	}
	strict = append(strict, more...)
	if prune != nil {
		unknown, err := prune(into)
		if err != nil {
			return invalid(err)
		}
		strict = append(strict, unknownFields(unknown)...)
	}
	if len(strict) == 0 {
		return nil
	}
	if directive(fieldValidation) == metav1.FieldValidationStrict {
		return invalid(runtime.NewStrictDecodingError(strict))
	}
	if directive(fieldValidation) == metav1.FieldValidationWarn {
		for _, err := range strict {
			request.AddWarning(ctx, err.Error())
		}
	}
	return nil
}

// patchedByType makes an object of a Go type without writing all of it as JSON; false: it is to be written.
func patchedByType(kind types.PatchType, current Object, body []byte, into Object, check bool) bool {
	if _, untyped := current.(*unstructured.Unstructured); untyped {
		return false
	}
	if kind == types.MergePatchType {
		return mergedByPlan(jsonobject.MergePatch, current, body, into)
	}
	return patchedPart(current, body, into, check)
}

// patchInvalid is the error for a patch whose result cannot be decoded.
func patchInvalid(doc []byte, err error) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{
		field.Invalid(field.NewPath("patch"), string(doc), err.Error())})
}

func jsonPatch(doc, body []byte, check bool) ([]byte, []error, error) {
	var strict []error
	if check {
		var ops []struct {
			Op    string `json:"op"`
			Path  string `json:"path"`
			From  string `json:"from"`
			Value any    `json:"value"`
		}
		var err error
		if strict, err = kjson.UnmarshalStrict(body, &ops); err != nil {
			return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
		}
		for n, err := range strict {
			strict[n] = fmt.Errorf("json patch %w", err)
		}
	}
	p, err := jsonpatch.DecodePatch(body)
	if err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	if len(p) > maxOperations {
		return nil, nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", maxOperations, len(p)))
	}
	if err := rootHasValue(p); err != nil {
		return nil, nil, unprocessable(err)
	}
	out, err := boundedpatch.Apply(p, doc)
	if errors.Is(err, boundedpatch.ErrCost) {
		return nil, nil, apierrors.NewRequestEntityTooLargeError(err.Error())
	}
	if err != nil {
		return nil, nil, unprocessable(err)
	}
	return out, strict, nil
}

func unprocessable(err error) error {
	return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
}

// rootHasValue refuses operations on the whole document that bring no value:
// the library would panic.
func rootHasValue(p jsonpatch.Patch) error {
	for _, op := range p {
		path, err := op.Path()
		if _, ok := op["value"]; err == nil && path == "" && !ok && (op.Kind() == "test" || op.Kind() == "replace") {
			return fmt.Errorf("operation %s of the document needs a value", op.Kind())
		}
	}
	return nil
}

func mergePatch(doc, body []byte, check bool) ([]byte, []error, error) {
	var strict []error
	if check {
		var err error
		if _, strict, err = jsonobject.UnmarshalStrict(body); err != nil {
			return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
		}
	}
	if out, err := jsonobject.Merge(doc, body); err == nil {
		return out, strict, nil
	}
	// They are not both objects: the library determines the result.
	out, err := jsonpatch.MergePatch(doc, body)
	if errors.Is(err, jsonpatch.ErrBadJSONPatch) {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	return out, strict, err
}
