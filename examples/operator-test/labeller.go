// Package operator is a small controller, and in its test shows how one is tested with kanzentest.
package operator

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
)

// Label is what Run sets.
const Label = "example.com/seen"

// Run sets a label on every ConfigMap of a namespace until ctx ends or its watch does.
func Run(ctx context.Context, c kubernetes.Interface, namespace string) error {
	w, err := c.CoreV1().ConfigMaps(namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		m, ok := e.Object.(*corev1.ConfigMap)
		if !ok || m.Labels[Label] != "" || !m.DeletionTimestamp.IsZero() {
			continue
		}
		if err := label(ctx, c, m); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return ctx.Err()
}

// label sets the label. Another writer may be faster, so it tries again.
func label(ctx context.Context, c kubernetes.Interface, m *corev1.ConfigMap) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now, err := c.CoreV1().ConfigMaps(m.Namespace).Get(ctx, m.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		metav1.SetMetaDataLabel(&now.ObjectMeta, Label, "true")
		_, err = c.CoreV1().ConfigMaps(m.Namespace).Update(ctx, now, metav1.UpdateOptions{})
		return err
	})
}
