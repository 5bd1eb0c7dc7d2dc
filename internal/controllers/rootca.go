package controllers

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

const (
	rootCAName = "kube-root-ca.crt"
	rootCAKey  = "ca.crt"
	// The description of the object, the same as kube-controller-manager's.
	descriptionKey    = "kubernetes.io/description"
	rootCADescription = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. " +
		"No other usage is guaranteed across distributions of Kubernetes clusters."
)

// runRootCA keeps a ConfigMap in every active namespace with the authority by
// which pods verify the server.
func runRootCA(ctx context.Context, c Config, cl *inprocess.Client) {
	if c.RootCA == nil {
		return
	}
	k := &rootCAKeeper{
		namespaces: engine.IndexOf[*corev1.Namespace](c.endpoint(corev1.Resource("namespaces"))),
		endpoint:   c.endpoint(corev1.Resource("configmaps")),
		client:     cl, bundle: string(c.RootCA),
	}
	k.maps = engine.IndexOf[*corev1.ConfigMap](k.endpoint)
	c.work(ctx, "root_ca_cert_publisher", once(k.publish),
		follow(k.namespaces, func(c store.Change[*corev1.Namespace]) (string, bool) { return c.Name(), !c.Gone }),
		follow(k.maps, func(c store.Change[*corev1.ConfigMap]) (string, bool) { return c.Namespace(), c.Name() == rootCAName }))
}

type rootCAKeeper struct {
	namespaces *store.Index[*corev1.Namespace]
	maps       *store.Index[*corev1.ConfigMap]
	endpoint   *engine.Endpoint
	client     *inprocess.Client
	bundle     string
}

func (k *rootCAKeeper) publish(ctx context.Context, namespace string) error {
	ns, ok, err := get(ctx, k.namespaces, namespace)
	if !ok || ns.DeletionTimestamp != nil || ns.Status.Phase == corev1.NamespaceTerminating {
		return err
	}
	m, ok, err := get(ctx, k.maps, namespace+"/"+rootCAName)
	if err != nil {
		return err
	}
	data := map[string]string{rootCAKey: k.bundle}
	if !ok {
		_, err := k.client.Create(ctx, in(k.endpoint, namespace), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: rootCAName, Annotations: map[string]string{descriptionKey: rootCADescription}}, Data: data,
		})
		if apierrors.IsAlreadyExists(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil
		}
		return ignoreMissing(err)
	}
	if len(m.Data) == 1 && m.Data[rootCAKey] == k.bundle && m.Annotations[descriptionKey] != "" {
		return nil
	}
	_, err = inprocess.Edit(ctx, k.client, at(k.endpoint, ""), request.Same(m), func(m *corev1.ConfigMap) error {
		m.Data = data
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, descriptionKey, rootCADescription)
		return nil
	})
	return ignoreMissing(err)
}
