package crd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/wire/remote"
)

// webhook is a conversion webhook.
type webhook struct {
	call    Call
	config  *apiextensionsv1.WebhookConversion
	timeout time.Duration // of one conversion, whatever the number of objects
	crd     string        // the definition's name
	metrics *Metrics
}

// conversionTimeout bounds one conversion.
const conversionTimeout = 30 * time.Second

// maxBatch bounds the objects of one call, in bytes: responses are bounded too, and a long list must not fail because
// of its length.
const maxBatch = 2 << 20

// convert converts all objects, in one call unless they are too large.
func (w *webhook) convert(ctx context.Context, objs []object, to string) ([]object, error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	raw := make([]runtime.RawExtension, len(objs))
	for i, u := range objs {
		b, err := jsonobject.Marshal(u.Object)
		if err != nil {
			return nil, err
		}
		raw[i].Raw = b
	}
	out := make([]object, 0, len(objs))
	for len(out) < len(objs) {
		from, size := len(out), len(raw[len(out)].Raw)
		end := from + 1
		for end < len(raw) && size+len(raw[end].Raw) <= maxBatch {
			size += len(raw[end].Raw)
			end++
		}
		converted, err := w.measured(ctx, objs[from:end], raw[from:end], to)
		if err != nil {
			return nil, err
		}
		out = append(out, converted...)
	}
	return out, nil
}

// measured is batch with metrics.
func (w *webhook) measured(ctx context.Context, objs []object, raw []runtime.RawExtension, to string) ([]object, error) {
	began := w.metrics.clock.Now()
	from := objs[0].GroupVersionKind().Version
	_, version, _ := strings.Cut(to, "/")
	out, failure, err := w.batch(ctx, objs, raw, to)
	took := w.metrics.clock.Since(began)
	w.metrics.converted(w.crd, from, version, failure, took)
	s := request.Step{Kind: request.StepConversion, Name: w.crd, Phase: "convert", Began: began, Took: took, Result: request.StepAllowed}
	if err != nil {
		s.Result, s.Reason = request.StepFailed, remote.Reason(causeOf(err))
	}
	request.AddStep(ctx, s)
	return out, err
}

// batch converts objects in one call; raw is their JSON. With an error it returns the failure's name in metrics.
func (w *webhook) batch(ctx context.Context, objs []object, raw []runtime.RawExtension, to string) (out []object, failure string, err error) {
	version := slices.IndexFunc(w.config.ConversionReviewVersions, func(v string) bool { return v == "v1" || v == "v1beta1" })
	if version < 0 {
		return nil, callFailed, errors.New("no supported conversion review versions")
	}
	out, failure, err = w.ask(ctx, w.config.ConversionReviewVersions[version], raw, to)
	if err != nil {
		return nil, failure, &callError{fmt.Sprintf("conversion webhook for %v failed: %v", objs[0].GroupVersionKind(), err), err}
	}
	if len(out) != len(objs) {
		return nil, partial, fmt.Errorf("conversion webhook for %v returned %d objects, expected %d", objs[0].GroupVersionKind(), len(out), len(objs))
	}
	for i := range out {
		if err := fits(objs[i], out[i], to); err != nil {
			return nil, invalidObject, fmt.Errorf("conversion webhook for %v returned invalid converted object at index %d: %w", objs[0].GroupVersionKind(), i, err)
		}
	}
	return out, "", nil
}

// callError is a failed call. It does not unwrap to its cause: the webhook's status must not become the status of the request.
type callError struct {
	text  string
	cause error
}

func (e *callError) Error() string { return e.text }

// causeOf returns the cause of a failed call, and any other error itself.
func causeOf(err error) error {
	var failed *callError
	if errors.As(err, &failed) {
		return failed.cause
	}
	return err
}

// ask sends a review and decodes the answer. The versions of reviews differ only in their name.
func (w *webhook) ask(ctx context.Context, version string, raw []runtime.RawExtension, to string) (out []object, failure string, err error) {
	uid := types.UID(uuid.NewString())
	review := &apiextensionsv1.ConversionReview{
		TypeMeta: metav1.TypeMeta{Kind: "ConversionReview", APIVersion: apiextensionsv1.GroupName + "/" + version},
		Request:  &apiextensionsv1.ConversionRequest{UID: uid, DesiredAPIVersion: to, Objects: raw},
	}
	var answer apiextensionsv1.ConversionReview
	if err := w.call(ctx, w.config.ClientConfig, review, &answer); err != nil {
		return nil, callFailed, err
	}
	r := answer.Response
	switch {
	case version == "v1" && answer.GroupVersionKind() != review.GroupVersionKind():
		return nil, malformed, fmt.Errorf("expected webhook response of %v, got %v", review.GroupVersionKind(), answer.GroupVersionKind())
	case r == nil:
		return nil, malformed, errors.New("no response provided")
	case version == "v1" && r.UID != uid:
		return nil, malformed, fmt.Errorf("expected response.uid=%q, got %q", uid, r.UID)
	case r.Result.Status != metav1.StatusSuccess && r.Result.Message != "":
		return nil, malformed, errors.New(r.Result.Message)
	case r.Result.Status != metav1.StatusSuccess:
		return nil, malformed, fmt.Errorf("response.result.status was '%s', not 'Success'", r.Result.Status)
	}
	out = make([]object, len(r.ConvertedObjects))
	for i, o := range r.ConvertedObjects {
		content, err := jsonobject.Unmarshal(o.Raw)
		if err != nil {
			return nil, malformed, err
		}
		if out[i] = (&unstructured.Unstructured{Object: content}); content == nil {
			return nil, malformed, fmt.Errorf("converted object at index %d is not an object", i)
		}
	}
	return out, "", nil
}

// fits checks that a converted object is still the same object, and restores its metadata except for labels and
// annotations, which the webhook may change.
func fits(in, out object, to string) error {
	if got := out.GetAPIVersion(); got != to {
		return fmt.Errorf("invalid groupVersion (expected %v, received %v)", to, got)
	}
	for _, same := range []struct{ what, want, got string }{
		{"kind", in.GetKind(), out.GetKind()}, {"name", in.GetName(), out.GetName()},
		{"namespace", in.GetNamespace(), out.GetNamespace()}, {"UID", string(in.GetUID()), string(out.GetUID())},
	} {
		if same.want != same.got {
			return fmt.Errorf("must have the same %s: %v != %v", same.what, same.want, same.got)
		}
	}
	brought, ok := out.Object["metadata"].(map[string]any)
	if !ok {
		return errors.New("metadata is missing or no object")
	}
	meta, _ := in.Object["metadata"].(map[string]any)
	meta = runtime.DeepCopyJSON(meta)
	if meta == nil {
		meta = map[string]any{}
	}
	out.Object["metadata"] = meta
	for name, check := range map[string]func(map[string]string, *field.Path) field.ErrorList{
		"labels": metav1validation.ValidateLabels, "annotations": validation.ValidateAnnotations,
	} {
		if err := takeTexts(meta, brought[name], name, check); err != nil {
			return err
		}
	}
	return nil
}

// takeTexts sets labels or annotations in metadata. It validates them if they differ from those of the original object.
func takeTexts(meta map[string]any, brought any, name string, check func(map[string]string, *field.Path) field.ErrorList) error {
	if brought == nil {
		delete(meta, name)
		return nil
	}
	texts, ok := brought.(map[string]any)
	if !ok {
		return fmt.Errorf("invalid metadata.%s of type %T in converted object", name, brought)
	}
	plain := make(map[string]string, len(texts))
	for k, v := range texts {
		if plain[k], ok = v.(string); !ok {
			return fmt.Errorf("metadata.%s[%s] must be a string, but is %T in converted object", name, k, v)
		}
	}
	if !equality.Semantic.DeepEqual(meta[name], brought) {
		if errs := check(plain, metadata.Child(name)); len(errs) > 0 {
			return errs.ToAggregate()
		}
	}
	meta[name] = texts
	return nil
}
