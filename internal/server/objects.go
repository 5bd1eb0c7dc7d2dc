package server

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/admission"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/store"
)

// objects reads and changes stored objects for the rules, the authenticators
// and admission. It is filled once the resources are known.
type objects struct {
	store *store.Store
	byGR  map[schema.GroupResource]*engine.Endpoint
	// custom finds the endpoint of a custom resource, nil if there is none.
	custom func(gr schema.GroupResource) *engine.Endpoint
}

func (o *objects) endpoint(gr schema.GroupResource) (*engine.Endpoint, error) {
	if ep := o.byGR[gr]; ep != nil {
		return ep, nil
	}
	if ep := o.custom(gr); ep != nil {
		return ep, nil
	}
	return nil, apierrors.NewInternalError(errNoResource(gr.String()))
}

type errNoResource string

func (e errNoResource) Error() string { return "no such resource: " + string(e) }

// View returns the stored objects of a resource.
func (o *objects) View(gr schema.GroupResource) (*store.View, error) {
	ep, err := o.endpoint(gr)
	if err != nil {
		return nil, err
	}
	return ep.View(), nil
}

// Get returns the newest object of a name.
func (o *objects) Get(ctx context.Context, gr schema.GroupResource, namespace, name string) (engine.Object, error) {
	ep, err := o.endpoint(gr)
	if err != nil {
		return nil, err
	}
	return ep.GetObject(ctx, namespace, name)
}

// List returns the newest objects of a namespace.
func (o *objects) List(ctx context.Context, gr schema.GroupResource, namespace string) ([]engine.Object, error) {
	ep, err := o.endpoint(gr)
	if err != nil {
		return nil, err
	}
	return ep.ListObjects(ctx, namespace)
}

// Update changes a stored object.
func (o *objects) Update(ctx context.Context, gr schema.GroupResource, namespace, name string, dryRun bool, change func(obj engine.Object) error) (engine.Object, error) {
	ep, err := o.endpoint(gr)
	if err != nil {
		return nil, err
	}
	return ep.UpdateObject(ctx, namespace, name, dryRun, change)
}

// Create stores a new object.
func (o *objects) Create(ctx context.Context, gr schema.GroupResource, obj engine.Object) (engine.Object, error) {
	ep, err := o.endpoint(gr)
	if err != nil {
		return nil, err
	}
	return ep.CreateObject(ctx, obj)
}

// Delete deletes an object.
func (o *objects) Delete(ctx context.Context, gr schema.GroupResource, namespace, name string, options *metav1.DeleteOptions) error {
	ep, err := o.endpoint(gr)
	if err != nil {
		return err
	}
	return ep.DeleteObject(ctx, namespace, name, options)
}

// Seen returns an object as this server last saw it, without asking etcd how
// far it is: for lookups on every request, where a moment's lag is as good as
// the request having come a moment earlier.
func (o *objects) Seen(ctx context.Context, gr schema.GroupResource, namespace, name string) (engine.Object, error) {
	ep, err := o.endpoint(gr)
	if err != nil {
		return nil, err
	}
	key := name
	if namespace != "" {
		key = namespace + "/" + name
	}
	i, err := ep.View().Get(ctx, key)
	if err != nil {
		// What is missing may just have been made: look again when all that
		// is acknowledged has arrived.
		return ep.GetObject(ctx, namespace, name)
	}
	return ep.Decode(i)
}

// SeenList returns the objects of a namespace ("" is all) as this server last
// saw them.
func (o *objects) SeenList(ctx context.Context, gr schema.GroupResource, namespace string) ([]engine.Object, error) {
	ep, err := o.endpoint(gr)
	if err != nil {
		return nil, err
	}
	return ep.SeenObjects(ctx, namespace)
}

func seen[T engine.Object](ctx context.Context, o *objects, gr schema.GroupResource, namespace, name string) (T, error) {
	return admission.Seen[T](ctx, o, gr, namespace, name)
}

func (o *objects) ServiceAccount(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	return seen[*corev1.ServiceAccount](ctx, o, schema.GroupResource{Resource: "serviceaccounts"}, namespace, name)
}

func (o *objects) Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	return seen[*corev1.Pod](ctx, o, schema.GroupResource{Resource: "pods"}, namespace, name)
}

func (o *objects) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return seen[*corev1.Secret](ctx, o, schema.GroupResource{Resource: "secrets"}, namespace, name)
}

func (o *objects) Node(ctx context.Context, name string) (*corev1.Node, error) {
	return seen[*corev1.Node](ctx, o, schema.GroupResource{Resource: "nodes"}, "", name)
}

func (o *objects) Namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	return seen[*corev1.Namespace](ctx, o, schema.GroupResource{Resource: "namespaces"}, "", name)
}
