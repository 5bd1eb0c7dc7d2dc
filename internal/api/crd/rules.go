package crd

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/rules"
	"github.com/kanzen-io/kanzen/internal/object/schema"
	"github.com/kanzen-io/kanzen/internal/request"
)

// kind is one version of a custom resource; it validates writes.
type kind struct {
	serving    *serving
	version    string
	gvk        apischema.GroupVersionKind
	namespaced bool
	status     bool // has a status subresource
	scale      *apiextensionsv1.CustomResourceSubresourceScale
}

// rules returns the rules of the object itself.
func (k *kind) rules() engine.Rules {
	r := engine.Rules{
		PrepareCreate: func(_ context.Context, obj engine.Object) {
			if k.status {
				delete(content(obj), "status")
			}
			obj.SetGeneration(1)
		},
		Validate: func(ctx context.Context, obj engine.Object) field.ErrorList {
			return k.validate(ctx, obj, nil, k.fieldsOfCreate)
		},
		Warn: func(_ context.Context, obj, old engine.Object) []string { return warnFinalizers(obj, old) },
		PrepareUpdate: func(_ context.Context, obj, old engine.Object) {
			if k.status {
				carry(content(obj), content(old), "status")
			}
			if !sameBut(content(obj), content(old), "metadata") {
				obj.SetGeneration(old.GetGeneration() + 1)
			}
		},
		ValidateUpdate: func(ctx context.Context, obj, old engine.Object) field.ErrorList {
			return k.validate(ctx, obj, old, k.fieldsOfUpdate)
		},
		NeedsResourceVersion: true,
	}
	if k.status {
		r.Reset = engine.ResetFields([]string{"status"})
	}
	return r
}

// statusRules returns the rules of the status subresource: nothing else changes.
func (k *kind) statusRules() engine.Rules {
	return engine.Rules{
		PrepareUpdate: func(_ context.Context, obj, old engine.Object) {
			u := obj.(*unstructured.Unstructured)
			status, has := u.Object["status"]
			managed := u.GetManagedFields()
			u.Object = old.(*unstructured.Unstructured).DeepCopy().Object
			u.SetManagedFields(managed)
			delete(u.Object, "status")
			if has {
				u.Object["status"] = status
			}
		},
		ValidateUpdate: func(ctx context.Context, obj, old engine.Object) field.ErrorList {
			return k.validate(ctx, obj, old, k.fieldsOfStatus)
		},
		NeedsResourceVersion: true,
		Reset:                engine.ResetFields([]string{"metadata"}, []string{"spec"}),
	}
}

// carry copies a field of from to to, or deletes it.
func carry(to, from map[string]any, name string) {
	if v, ok := from[name]; ok {
		to[name] = v
		return
	}
	delete(to, name)
}

// sameBut reports whether two objects are equal except for one field.
func sameBut(a, b map[string]any, name string) bool {
	n := 0
	for key, v := range a {
		if key == name {
			continue
		}
		n++
		other, ok := b[key]
		if !ok || !equality.Semantic.DeepEqual(v, other) {
			return false
		}
	}
	if _, ok := b[name]; ok {
		n++
	}
	return n == len(b)
}

// validate checks the object's type and, if that is correct, everything else.
func (k *kind) validate(ctx context.Context, obj, old engine.Object,
	rest func(ctx context.Context, s *schema.Schema, obj, old engine.Object) schema.Verdict) field.ErrorList {
	gvk := obj.GetObjectKind().GroupVersionKind()
	var errs field.ErrorList
	if gvk.Kind != k.gvk.Kind {
		errs = append(errs, field.Invalid(field.NewPath("kind"), gvk.Kind, "must be "+k.gvk.Kind))
	}
	if gv := k.gvk.GroupVersion().String(); gvk.GroupVersion().String() != gv {
		errs = append(errs, field.Invalid(field.NewPath("apiVersion"), gvk.GroupVersion().String(), "must be "+gv))
	}
	if len(errs) > 0 {
		return errs
	}
	s, err := k.serving.schema(k.version)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	began := k.serving.server.Clock.Now()
	v := rest(ctx, s, obj, old)
	k.serving.checking.Add(int64(k.serving.server.Clock.Since(began)))
	k.serving.checks.Add(1)
	for _, w := range v.Warnings {
		request.AddWarning(ctx, w)
	}
	return v.Errors
}

var metadata = field.NewPath("metadata")

func (k *kind) fieldsOfCreate(ctx context.Context, s *schema.Schema, obj, _ engine.Object) schema.Verdict {
	errs := rules.ValidateMeta(obj, k.namespaced, validation.NameIsDNSSubdomain, metadata)
	return s.ValidateCreate(ctx, content(obj), append(errs, k.checkScale(content(obj), true)...)...)
}

func (k *kind) fieldsOfUpdate(ctx context.Context, s *schema.Schema, obj, old engine.Object) schema.Verdict {
	errs := validation.ValidateObjectMetaAccessorUpdate(obj, old, metadata)
	return s.ValidateUpdate(ctx, content(obj), content(old), append(errs, k.checkScale(content(obj), true)...)...)
}

func (k *kind) fieldsOfStatus(ctx context.Context, s *schema.Schema, obj, old engine.Object) schema.Verdict {
	errs := validation.ValidateObjectMetaAccessorUpdate(obj, old, metadata)
	return s.ValidateStatusUpdate(ctx, content(obj), content(old), append(errs, k.checkScale(content(obj), false)...)...)
}

// checkScale validates the fields of the scale subresource: replica counts in the status, and with spec those in the
// spec.
func (k *kind) checkScale(obj map[string]any, spec bool) field.ErrorList {
	if k.scale == nil {
		return nil
	}
	var errs field.ErrorList
	if spec {
		errs = append(errs, checkReplicas(obj, k.scale.SpecReplicasPath)...)
	}
	errs = append(errs, checkReplicas(obj, k.scale.StatusReplicasPath)...)
	if p := k.scale.LabelSelectorPath; p != nil {
		if s, _, err := unstructured.NestedString(obj, path(*p)...); err != nil {
			errs = append(errs, field.Invalid(field.NewPath(*p), s, err.Error()))
		}
	}
	return errs
}

func checkReplicas(obj map[string]any, at string) field.ErrorList {
	n, _, err := unstructured.NestedInt64(obj, path(at)...)
	p := field.NewPath(at)
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(p, n, err.Error())}
	case n < 0:
		return field.ErrorList{field.Invalid(p, n, "should be a non-negative integer")}
	case n > math.MaxInt32:
		return field.ErrorList{field.Invalid(p, n, fmt.Sprintf("should be less than or equal to %v", math.MaxInt32))}
	}
	return nil
}

// warnFinalizers returns warnings about new finalizers whose names may clash with others.
func warnFinalizers(obj, old engine.Object) []string {
	var known []string
	if old != nil {
		known = old.GetFinalizers()
	}
	added := slices.Clone(obj.GetFinalizers())
	slices.Sort(added)
	var out []string
	for _, f := range slices.Compact(added) {
		if slices.Contains(known, f) {
			continue
		}
		where := fmt.Sprintf("metadata.finalizers: %q: ", f)
		for _, msg := range utilvalidation.IsQualifiedName(f) {
			out = append(out, where+msg)
		}
		switch {
		case strings.Contains(f, "/"), f == metav1.FinalizerOrphanDependents, f == metav1.FinalizerDeleteDependents, f == string(corev1.FinalizerKubernetes):
		case strings.Contains(f, "."):
			out = append(out, where+"prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers")
		default:
			out = append(out, where+"prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers")
		}
	}
	return out
}
