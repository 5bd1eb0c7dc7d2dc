package core

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func namespaces() *engine.Resource {
	finalize := engine.Typed[*corev1.Namespace]{
		StatusApart:    true,
		ValidateUpdate: validateFinalize,
	}.Rules()
	return &engine.Resource{
		Plural: "namespaces", Kind: "Namespace",
		ShortNames:    []string{"ns"},
		ReturnDeleted: true,
		Versions:      only(engine.VersionOf[corev1.Namespace, corev1.NamespaceList](v1, defaultNamespace)),
		// A collection of namespaces cannot be deleted: each must finalize its own content.
		Verbs: []string{"create", "delete", "get", "list", "patch", "update", "watch"},
		Rules: engine.Typed[*corev1.Namespace]{
			StatusApart:   true,
			PrepareCreate: prepareNamespace,
			Validate:      func(_ context.Context, n *corev1.Namespace) field.ErrorList { return validateNamespace(n) },
			ValidateUpdate: func(_ context.Context, n, old *corev1.Namespace) field.ErrorList {
				return append(validateNamespace(n), rules.ObjectMetaUpdate(&n.ObjectMeta, &old.ObjectMeta)...)
			},
			PrepareUpdate: func(_ context.Context, n, old *corev1.Namespace) {
				n.Spec.Finalizers = old.Spec.Finalizers
				labelNamespace(n)
			},
			// The namespace's content is deleted first; then its finalizer is removed. The first deletion never removes the namespace.
			Held:        func(n *corev1.Namespace) bool { return n.DeletionTimestamp == nil || len(n.Spec.Finalizers) > 0 },
			Terminating: func(n *corev1.Namespace) { n.Status.Phase = corev1.NamespaceTerminating },
		}.Rules(),
		Subresources: []*engine.Subresource{
			{Name: "finalize", Verbs: []string{"update"}, Rules: &finalize},
			engine.Status(engine.Typed[*corev1.Namespace]{
				ValidateUpdate: validateNamespaceStatus,
			}),
		},
		Fields: engine.Fields(func(n *corev1.Namespace) fields.Set {
			return fields.Set{"status.phase": string(n.Status.Phase)}
		}),
		Table: namespaceTable(),
	}
}

func defaultNamespace(n *corev1.Namespace) {
	if n.Name != "" {
		labelNamespace(n)
	}
	rules.Default(&n.Status.Phase, corev1.NamespaceActive)
}

// labelNamespace sets the name label, so that selectors can select namespaces by name.
func labelNamespace(n *corev1.Namespace) {
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	n.Labels[corev1.LabelMetadataName] = n.Name
}

// prepareNamespace gives a new namespace the finalizer that keeps it until its content is deleted. It is not a default,
// because it is removed at the end.
func prepareNamespace(_ context.Context, n *corev1.Namespace) {
	n.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
	labelNamespace(n) // a generated name is known only now
	if !slices.Contains(n.Spec.Finalizers, corev1.FinalizerKubernetes) {
		n.Spec.Finalizers = append(n.Spec.Finalizers, corev1.FinalizerKubernetes)
	}
}

func validateNamespace(n *corev1.Namespace) field.ErrorList {
	errs := rules.ObjectMeta(&n.ObjectMeta, false, rules.NamespaceName)
	for _, f := range n.Spec.Finalizers {
		errs = append(errs, rules.Finalizer(string(f), field.NewPath("spec", "finalizers"))...)
	}
	return errs
}

func validateFinalize(_ context.Context, n, old *corev1.Namespace) field.ErrorList {
	errs := rules.ObjectMetaUpdate(&n.ObjectMeta, &old.ObjectMeta)
	for i, f := range n.Spec.Finalizers {
		errs = append(errs, rules.Finalizer(string(f), field.NewPath("spec", "finalizers").Index(i))...)
	}
	return errs
}

// validateNamespaceStatus checks that the phase agrees with the deletion timestamp.
func validateNamespaceStatus(_ context.Context, n, old *corev1.Namespace) field.ErrorList {
	errs := rules.ObjectMetaUpdate(&n.ObjectMeta, &old.ObjectMeta)
	want, when := corev1.NamespaceActive, "empty"
	if !n.DeletionTimestamp.IsZero() {
		want, when = corev1.NamespaceTerminating, "not empty"
	}
	if n.Status.Phase != want {
		errs = append(errs, field.Invalid(field.NewPath("status", "Phase"), n.Status.Phase, fmt.Sprintf("may only be '%s' if `deletionTimestamp` is %s", want, when)))
	}
	return errs
}
