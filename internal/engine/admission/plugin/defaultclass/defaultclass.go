// Package defaultclass gives claims the default storage class and ingresses
// the default ingress class.
package defaultclass

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// Names of the plugins in --enable-admission-plugins.
const (
	StorageName = "DefaultStorageClass"
	IngressName = "DefaultIngressClass"
)

const (
	defaultStorageAnnotation     = "storageclass.kubernetes.io/is-default-class"
	betaDefaultStorageAnnotation = "storageclass.beta.kubernetes.io/is-default-class"
	// ingressAnnotation named an ingress's class before there was a field.
	ingressAnnotation = "kubernetes.io/ingress.class"
)

// Storage makes the plugin for claims.
func Storage(objects admission.Objects) admission.Plugin {
	return admission.Plugin{
		Name: StorageName,
		On:   []admission.Operation{admission.Create}, Of: []schema.GroupResource{admission.PersistentVolumeClaims},
		Mutator: admission.Func(func(ctx context.Context, a *admission.Attributes) error {
			claim, ok := a.Object.(*corev1.PersistentVolumeClaim)
			if !ok || a.Subresource != "" {
				return nil
			}
			_, annotated := claim.Annotations[corev1.BetaStorageClassAnnotation]
			if annotated || claim.Spec.StorageClassName != nil {
				return nil
			}
			name, err := newest(ctx, objects, admission.StorageClasses, defaultStorageAnnotation, betaDefaultStorageAnnotation)
			if err != nil {
				return admission.Forbidden(a, err)
			}
			claim.Spec.StorageClassName = name
			return nil
		}),
	}
}

// Ingress makes the plugin for ingresses.
func Ingress(objects admission.Objects) admission.Plugin {
	return admission.Plugin{
		Name: IngressName,
		On:   []admission.Operation{admission.Create}, Of: []schema.GroupResource{admission.Ingresses},
		Mutator: admission.Func(func(ctx context.Context, a *admission.Attributes) error {
			if a.Subresource != "" {
				return nil
			}
			ingress, ok := a.Object.(*networkingv1.Ingress)
			if !ok {
				return apierrors.NewInternalError(fmt.Errorf("expected an Ingress and got a %T", a.Object))
			}
			_, annotated := ingress.Annotations[ingressAnnotation]
			if annotated || ingress.Spec.IngressClassName != nil {
				return nil
			}
			name, err := newest(ctx, objects, admission.IngressClasses, networkingv1.AnnotationIsDefaultIngressClass)
			if err != nil {
				return admission.Forbidden(a, err)
			}
			ingress.Spec.IngressClassName = name
			return nil
		}),
	}
}

// Of returns the storage class of a claim; "" is none.
func Of(c *corev1.PersistentVolumeClaim) string {
	if name, ok := c.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return name
	}
	if c.Spec.StorageClassName != nil {
		return *c.Spec.StorageClassName
	}
	return ""
}

// newest returns the name of the default class: the newest class with one of
// the annotations, and of equally new ones the first by name. Nil: there is
// none.
func newest(ctx context.Context, objects admission.Objects, gr schema.GroupResource, annotations ...string) (*string, error) {
	classes, err := objects.SeenList(ctx, gr, "")
	if err != nil {
		return nil, err
	}
	var found admission.Object
	for _, c := range classes {
		isDefault := false
		for _, key := range annotations {
			isDefault = isDefault || c.GetAnnotations()[key] == "true"
		}
		if isDefault && (found == nil || comesFirst(c, found)) {
			found = c
		}
	}
	if found == nil {
		return nil, nil
	}
	name := found.GetName()
	return &name, nil
}

func comesFirst(a, b admission.Object) bool {
	at, bt := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	if at.Equal(&bt) {
		return a.GetName() < b.GetName()
	}
	return at.After(bt.Time)
}
