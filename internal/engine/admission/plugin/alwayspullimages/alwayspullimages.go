// Package alwayspullimages makes every pod pull its images, so that a pod can
// use only images that its credentials give access to.
package alwayspullimages

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/object/podspec"
)

// Name of the plugin in --enable-admission-plugins.
const Name = "AlwaysPullImages"

// New makes the plugin.
func New() admission.Plugin {
	return admission.Plugin{
		Name: Name, Mutator: admission.Func(admit), Validator: admission.Func(validate),
		On: []admission.Operation{admission.Create, admission.Update}, Of: []schema.GroupResource{admission.Pods},
	}
}

func admit(_ context.Context, a *admission.Attributes) error {
	pod, err := judged(a)
	if err != nil || pod == nil {
		return err
	}
	for c := range podspec.Containers(&pod.Spec) {
		c.ImagePullPolicy = corev1.PullAlways
	}
	for _, v := range pod.Spec.Volumes {
		if v.Image != nil {
			v.Image.PullPolicy = corev1.PullAlways
		}
	}
	return nil
}

func validate(_ context.Context, a *admission.Attributes) error {
	pod, err := judged(a)
	if err != nil || pod == nil {
		return err
	}
	var errs []error
	check := func(path *field.Path, policy corev1.PullPolicy) {
		if policy != corev1.PullAlways {
			errs = append(errs, admission.Forbidden(a, field.NotSupported(path, policy, []corev1.PullPolicy{corev1.PullAlways})))
		}
	}
	spec := field.NewPath("spec")
	for path, c := range podspec.ContainersAt(&pod.Spec, spec) {
		check(path.Child("imagePullPolicy"), c.ImagePullPolicy)
	}
	for i, v := range pod.Spec.Volumes {
		if v.Image != nil {
			check(spec.Child("volumes").Index(i).Child("image", "pullPolicy"), v.Image.PullPolicy)
		}
	}
	return utilerrors.NewAggregate(errs)
}

// judged returns the pod of a write that sets new images, or nil.
func judged(a *admission.Attributes) (*corev1.Pod, error) {
	if a.Subresource != "" {
		return nil, nil
	}
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return nil, admission.WrongType(a)
	}
	old, ok := a.OldObject.(*corev1.Pod)
	if !ok || a.Operation != admission.Update {
		return pod, nil
	}
	images := sets.New[string]()
	for c := range podspec.Containers(&old.Spec) {
		images.Insert(c.Image)
	}
	for c := range podspec.Containers(&pod.Spec) {
		if !images.Has(c.Image) {
			return pod, nil
		}
	}
	return nil, nil
}
