package expr

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/object/cel"
)

// Namespaces finds namespaces for expressions. A missing one is an apierrors
// NotFound.
type Namespaces interface {
	Namespace(ctx context.Context, name string) (*corev1.Namespace, error)
}

// Write is a write as expressions see it, in each version that they ask for.
// Each value is made once, when the first expression needs it, and shared by
// all. It is not safe for concurrent use.
type Write struct {
	a          *admission.Attributes
	namespaces Namespaces
	authorizer *cachingAuthorizer
	views      []*View
	namespace  any
	seenNS     bool
}

// NewWrite returns the Write of a write's attributes.
func NewWrite(a *admission.Attributes, n Namespaces, z authz.Authorizer) *Write {
	return &Write{a: a, namespaces: n, authorizer: &cachingAuthorizer{next: z}}
}

// In returns the write in a version.
func (w *Write) In(ctx context.Context, v admission.Version) (*View, error) {
	for _, have := range w.views {
		if have.Version == v {
			return have, nil
		}
	}
	view := &View{Version: v, w: w}
	for _, have := range w.views {
		if have.Version.Kind == v.Kind { // the same objects, for another resource
			view.objects = have.objects
		}
	}
	if view.objects == nil {
		o := &objects{}
		var err error
		if o.object, err = w.convert(ctx, w.a.Object, v); err != nil {
			return nil, err
		}
		if o.old, err = w.convert(ctx, w.a.OldObject, v); err != nil {
			return nil, err
		}
		view.objects = o
	}
	w.views = append(w.views, view)
	return view, nil
}

func (w *Write) convert(ctx context.Context, obj runtime.Object, v admission.Version) (runtime.Object, error) {
	if obj == nil || w.a.Versions == nil {
		return obj, nil
	}
	return w.a.Versions.Convert(ctx, obj, v.Kind)
}

// Changed drops the cached views, because the object in the write's attributes
// has changed.
func (w *Write) Changed() { w.views = nil }

// View is a write in one version.
type View struct {
	Version admission.Version
	w       *Write
	*objects
	request any
}

// objects are the objects of a write in one version.
type objects struct {
	object, old           runtime.Object
	objectValue, oldValue any // as expressions see them
}

// Object returns the object in the view's version; nil if there is none.
func (v *View) Object() runtime.Object { return v.object }

// OldObject returns the stored object in the view's version; nil if there is
// none.
func (v *View) OldObject() runtime.Object { return v.old }

// Inputs are the variables of the expressions of one webhook or policy.
type Inputs struct {
	*View
	Ctx context.Context
	// Params are a policy's parameters, nil for none.
	Params any
	// Authorizer and Namespace say that these variables exist: not all
	// expressions have them.
	Authorizer, Namespace bool
}

var _ cel.Inputs = (*Inputs)(nil)

// Input is part of cel.Inputs.
func (in *Inputs) Input(name cel.Name) (any, error) {
	switch name {
	case cel.ObjectInput:
		return seen(in.object, &in.objectValue), nil
	case cel.OldObjectInput:
		return seen(in.old, &in.oldValue), nil
	case cel.ParamsInput:
		return in.Params, nil
	case cel.RequestInput:
		return in.requestMap()
	case cel.NamespaceInput:
		if !in.Namespace {
			return nil, nil
		}
		return in.w.namespaceMap(in.Ctx)
	case cel.AuthorizerInput:
		if in.Authorizer {
			return library.NewAuthorizerVal(in.w.a.User, in.w.authorizer), nil
		}
	case cel.RequestResourceInput:
		if in.Authorizer {
			return library.NewResourceAuthorizerVal(in.w.a.User, in.w.authorizer, resource{in.w.a}), nil
		}
	}
	return nil, nil
}

// seen returns an object as expressions see it; nil is null.
func seen(obj runtime.Object, value *any) any {
	if obj != nil && *value == nil {
		*value = Value(obj)
	}
	return *value
}

// Value returns an object as expressions see it. It must not change while they use it.
func Value(obj runtime.Object) any {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.Object
	}
	return cel.Typed(obj)
}

func (v *View) requestMap() (any, error) {
	if v.request != nil {
		return v.request, nil
	}
	r := Request(v.w.a, v.Version)
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r)
	if err != nil {
		return nil, fmt.Errorf("failed to prepare request variable for evaluation: %w", err)
	}
	v.request = m
	return m, nil
}

// Request describes a write in a version, without its objects.
func Request(a *admission.Attributes, v admission.Version) *admissionv1.AdmissionRequest {
	kind, resource := metav1.GroupVersionKind(a.Kind), metav1.GroupVersionResource(a.Resource)
	dryRun := a.DryRun
	r := &admissionv1.AdmissionRequest{
		Kind: metav1.GroupVersionKind(v.Kind), Resource: metav1.GroupVersionResource(v.Resource), SubResource: a.Subresource,
		RequestKind: &kind, RequestResource: &resource, RequestSubResource: a.Subresource,
		Name: a.Name, Namespace: a.Namespace, Operation: admissionv1.Operation(a.Operation),
		DryRun: &dryRun, Options: runtime.RawExtension{Object: a.Options},
	}
	if a.Collection {
		r.Name = ""
	}
	if u := a.User; u != nil {
		r.UserInfo = authenticationv1.UserInfo{Username: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups()}
		for k, values := range u.GetExtra() {
			if r.UserInfo.Extra == nil {
				r.UserInfo.Extra = map[string]authenticationv1.ExtraValue{}
			}
			r.UserInfo.Extra[k] = values
		}
	}
	return r
}

// namespaceMap returns the namespace of the write; null if the write is in
// none, or to a namespace itself.
func (w *Write) namespaceMap(ctx context.Context) (any, error) {
	if w.seenNS {
		return w.namespace, nil
	}
	w.seenNS = true
	if w.a.Namespace == "" || w.a.Kind == corev1.SchemeGroupVersion.WithKind("Namespace") {
		return nil, nil
	}
	ns, err := w.namespaces.Namespace(ctx, w.a.Namespace)
	if err != nil {
		return nil, err
	}
	// These are the fields that expressions may see.
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{
			Name: ns.Name, GenerateName: ns.GenerateName, Namespace: ns.Namespace, UID: ns.UID,
			ResourceVersion: ns.ResourceVersion, Generation: ns.Generation,
			CreationTimestamp: ns.CreationTimestamp, DeletionTimestamp: ns.DeletionTimestamp,
			DeletionGracePeriodSeconds: ns.DeletionGracePeriodSeconds,
			Labels:                     ns.Labels, Annotations: ns.Annotations, Finalizers: ns.Finalizers,
		},
		Spec: ns.Spec, Status: ns.Status,
	})
	if err != nil {
		return nil, err
	}
	w.namespace = m
	return m, nil
}

// resource is the resource of a write, for "authorizer.requestResource".
type resource struct{ *admission.Attributes }
