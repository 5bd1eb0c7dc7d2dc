package core

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/rules"
	"github.com/kanzen-io/kanzen/internal/request"
)

// bindings is the older way to bind a pod: the binding has the pod's name. Its Create returns no object, so the
// response is a Status of success.
func bindings(d Deps) *engine.Resource {
	bind := bindPod(d)
	return &engine.Resource{
		Plural: "bindings", Kind: "Binding",
		Namespaced: true,
		Versions:   only(engine.VersionOf[corev1.Binding, metav1.Status](v1, nil)),
		Verbs:      []string{"create"},
		Create: func(ctx context.Context, obj engine.Object, check engine.Check, options *metav1.CreateOptions) (engine.Object, error) {
			obj.SetUID("") // only the subresource looks at it
			_, err := bind(ctx, obj.GetName(), obj, check, options)
			return nil, err
		},
	}
}

// bindPod returns the func that assigns a pod to a node, once.
func bindPod(d Deps) func(context.Context, string, engine.Object, engine.Check, *metav1.CreateOptions) (runtime.Object, error) {
	return func(ctx context.Context, name string, body engine.Object, check engine.Check, options *metav1.CreateOptions) (runtime.Object, error) {
		b, ok := body.(*corev1.Binding)
		if !ok {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("a binding is needed, not %T", body))
		}
		if b.Name != name {
			return nil, apierrors.NewBadRequest("the name in the URL does not match the name in the binding")
		}
		if errs := validateBinding(b); len(errs) > 0 {
			return nil, errs.ToAggregate()
		}
		if err := check(ctx, b); err != nil {
			return nil, err
		}
		// The binding itself says which pod it is meant for, if its author wants that.
		which := request.NamedIf(namespaceOf(ctx, b), name, b.UID, b.ResourceVersion)
		_, err := d.Objects.Update(ctx, corev1.Resource("pods"), which, isDryRun(options.DryRun), func(obj engine.Object) error {
			return assign(obj.(*corev1.Pod), b, d)
		})
		if err != nil {
			return nil, err
		}
		return &metav1.Status{Status: metav1.StatusSuccess}, nil
	}
}

func validateBinding(b *corev1.Binding) field.ErrorList {
	e := rules.At(field.NewPath("target"))
	if b.Target.Kind != "" {
		rules.OneOf(e, "kind", b.Target.Kind, []string{"Node", "<empty>"})
	}
	e.Present("name", b.Target.Name)
	return e.List()
}

// assign sets a pod's node, and copies the binding's labels and annotations.
func assign(p *corev1.Pod, b *corev1.Binding, d Deps) error {
	conflict := func(format string, args ...any) error {
		return apierrors.NewConflict(corev1.Resource("pods/binding"), p.Name, fmt.Errorf(format, args...))
	}
	switch {
	case p.DeletionTimestamp != nil:
		return conflict("pod %s is being deleted, cannot be assigned to a host", p.Name)
	case p.Spec.NodeName != "":
		return conflict("pod %v is already assigned to node %q", p.Name, p.Spec.NodeName)
	case len(p.Spec.SchedulingGates) > 0:
		return conflict("pod %v has non-empty .spec.schedulingGates", p.Name)
	}
	p.Spec.NodeName = b.Target.Name
	if d.Pods.Gates.Enabled(features.ClearingNominatedNodeNameAfterBinding) {
		p.Status.NominatedNodeName = ""
	}
	merge(&p.Annotations, b.Annotations)
	merge(&p.Labels, b.Labels)
	setPodCondition(&p.Status, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, d)
	return nil
}

func merge(to *map[string]string, from map[string]string) {
	if *to == nil && len(from) > 0 {
		*to = map[string]string{}
	}
	maps.Copy(*to, from)
}

// setPodCondition adds or replaces a condition; the transition time changes with the status.
func setPodCondition(s *corev1.PodStatus, c corev1.PodCondition, d Deps) {
	c.LastTransitionTime = metav1.Time{Time: d.Now()}
	for i := range s.Conditions {
		old := &s.Conditions[i]
		if old.Type != c.Type {
			continue
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		*old = c
		return
	}
	s.Conditions = append(s.Conditions, c)
}

// namespaceOf returns the request's namespace, for bodies without one.
func namespaceOf(ctx context.Context, body engine.Object) string {
	if info := request.InfoFrom(ctx); info != nil && info.Namespace != "" {
		return info.Namespace
	}
	return body.GetNamespace()
}

func isDryRun(dryRun []string) bool { return len(dryRun) > 0 }
