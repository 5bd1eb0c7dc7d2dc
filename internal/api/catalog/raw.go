package catalog

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Raw reads and writes stored objects of any resource for the server's own bookkeeping: validation, authenticators,
// admission. Its writes skip authorization, admission and audit.
type Raw struct {
	*Live
	Store *store.Cluster
}

// Endpoint returns the endpoint with which the server itself reads and writes a resource.
func (l *Live) Endpoint(gr schema.GroupResource) (*engine.Endpoint, error) {
	r := l.Now().Resource(gr)
	if r == nil {
		return nil, apierrors.NewInternalError(ErrNoResource(gr.String()))
	}
	return r.Endpoint(r.Storage)
}

// ErrNoResource means that a resource or kind is not served.
type ErrNoResource string

// Error is part of error.
func (e ErrNoResource) Error() string { return "no such resource: " + string(e) }

// View returns the stored objects of a resource.
func (o *Raw) View(gr schema.GroupResource) (*store.View, error) {
	ep, err := o.Endpoint(gr)
	if err != nil {
		return nil, err
	}
	return ep.View(), nil
}

// Get returns the newest version of an object.
func (o *Raw) Get(ctx context.Context, gr schema.GroupResource, namespace, name string) (engine.Object, error) {
	ep, err := o.Endpoint(gr)
	if err != nil {
		return nil, err
	}
	return ep.GetObject(ctx, namespace, name)
}

// List returns the newest versions of the objects in a namespace.
func (o *Raw) List(ctx context.Context, gr schema.GroupResource, namespace string) ([]engine.Object, error) {
	ep, err := o.Endpoint(gr)
	if err != nil {
		return nil, err
	}
	return ep.ListObjects(ctx, namespace)
}

// Update changes a stored object.
func (o *Raw) Update(ctx context.Context, gr schema.GroupResource, w request.Which, dryRun bool, change func(obj engine.Object) error) (engine.Object, error) {
	ep, err := o.Endpoint(gr)
	if err != nil {
		return nil, err
	}
	return ep.UpdateObject(ctx, w, dryRun, change)
}

// Create stores a new object.
func (o *Raw) Create(ctx context.Context, gr schema.GroupResource, obj engine.Object) (engine.Object, error) {
	ep, err := o.Endpoint(gr)
	if err != nil {
		return nil, err
	}
	return ep.CreateObject(ctx, obj)
}

// Delete deletes an object.
func (o *Raw) Delete(ctx context.Context, gr schema.GroupResource, w request.Which, options *metav1.DeleteOptions) error {
	ep, err := o.Endpoint(gr)
	if err != nil {
		return err
	}
	return ep.DeleteObject(ctx, w, options)
}

// Seen returns an object from the view, without asking etcd for the newest revision. It is for lookups on every
// request, where a short delay has the same effect as if the request had come earlier.
func (o *Raw) Seen(ctx context.Context, gr schema.GroupResource, namespace, name string) (engine.Object, error) {
	ep, err := o.Endpoint(gr)
	if err != nil {
		return nil, err
	}
	key := name
	if namespace != "" {
		key = namespace + "/" + name
	}
	i, err := ep.View().Get(ctx, key)
	if err != nil {
		// A missing object may be new: try again after all acknowledged writes have arrived.
		return ep.GetObject(ctx, namespace, name)
	}
	return ep.Shared(ctx, i)
}

// SeenList returns the objects of a namespace ("" means all) from the view.
func (o *Raw) SeenList(ctx context.Context, gr schema.GroupResource, namespace string) ([]engine.Object, error) {
	ep, err := o.Endpoint(gr)
	if err != nil {
		return nil, err
	}
	return ep.SeenObjects(ctx, namespace)
}

func seen[T engine.Object](ctx context.Context, o *Raw, gr schema.GroupResource, namespace, name string) (T, error) {
	return admission.Seen[T](ctx, o, gr, namespace, name)
}

// ServiceAccount is Seen of a service account.
func (o *Raw) ServiceAccount(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	return seen[*corev1.ServiceAccount](ctx, o, schema.GroupResource{Resource: "serviceaccounts"}, namespace, name)
}

// Pod is Seen of a pod.
func (o *Raw) Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	return seen[*corev1.Pod](ctx, o, schema.GroupResource{Resource: "pods"}, namespace, name)
}

// Secret is Seen of a secret.
func (o *Raw) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return seen[*corev1.Secret](ctx, o, schema.GroupResource{Resource: "secrets"}, namespace, name)
}

// Node is Seen of a node.
func (o *Raw) Node(ctx context.Context, name string) (*corev1.Node, error) {
	return seen[*corev1.Node](ctx, o, schema.GroupResource{Resource: "nodes"}, "", name)
}

// ValidatingWebhooks is Seen of a configuration of webhooks.
func (o *Raw) ValidatingWebhooks(ctx context.Context, name string) (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	return seen[*admissionregistrationv1.ValidatingWebhookConfiguration](ctx, o, admissionregistrationv1.Resource("validatingwebhookconfigurations"), "", name)
}

// MutatingWebhooks is Seen of a configuration of webhooks.
func (o *Raw) MutatingWebhooks(ctx context.Context, name string) (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
	return seen[*admissionregistrationv1.MutatingWebhookConfiguration](ctx, o, admissionregistrationv1.Resource("mutatingwebhookconfigurations"), "", name)
}

// Namespace is Seen of a namespace.
func (o *Raw) Namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	return seen[*corev1.Namespace](ctx, o, schema.GroupResource{Resource: "namespaces"}, "", name)
}

// NamespaceLabels returns the labels of a namespace, read from its stored bytes.
func (o *Raw) NamespaceLabels(ctx context.Context, name string) (labels.Set, error) {
	gr := corev1.Resource("namespaces")
	v, err := o.View(gr)
	if err != nil {
		return nil, err
	}
	i, err := v.Get(ctx, name)
	if err != nil {
		// The namespace may be new.
		if err := v.Fresh(ctx); err != nil {
			return nil, err
		}
		if i, err = v.Get(ctx, name); err != nil {
			return nil, apierrors.NewNotFound(gr, name)
		}
	}
	return v.Labels(i)
}
