package core

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/builtin/rules"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Tokens signs tokens for service accounts.
type Tokens interface {
	// Audiences are the ones of a token that asks for none.
	Audiences() []string
	// MaxLifetime bounds how long a token may live; zero does not.
	MaxLifetime() time.Duration
	// Sign returns a token for account, bound to an object where bound is not nil.
	Sign(ctx context.Context, account *corev1.ServiceAccount, bound *BoundObject, spec *authenticationv1.TokenRequestSpec) (string, error)
}

// BoundObject is the object whose life bounds a token's.
type BoundObject struct {
	Kind string // "Pod", "Secret" or "Node"
	Name string
	UID  types.UID
	// Node and NodeUID are where a bound pod runs, if it does.
	Node    string
	NodeUID types.UID
}

var tokenRequest = authenticationv1.SchemeGroupVersion.WithKind("TokenRequest").GroupKind()

// createToken serves serviceaccounts/NAME/token.
func createToken(d Deps) func(context.Context, string, engine.Object, *metav1.CreateOptions) (runtime.Object, error) {
	return func(ctx context.Context, name string, body engine.Object, _ *metav1.CreateOptions) (runtime.Object, error) {
		r, ok := body.(*authenticationv1.TokenRequest)
		if !ok {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("a token request is needed, not %T", body))
		}
		return d.createToken(ctx, namespaceOf(ctx, r), name, r)
	}
}

func (d Deps) createToken(ctx context.Context, namespace, name string, r *authenticationv1.TokenRequest) (runtime.Object, error) {
	const hour = 60 * 60
	rules.DefaultPtr(&r.Spec.ExpirationSeconds, hour)
	e := rules.At(field.NewPath("metadata"))
	if r.Name != "" && r.Name != name {
		e.Field("name").Invalid(r.Name, "must be the service account's")
	} else if r.Namespace != "" && r.Namespace != namespace {
		e.Field("namespace").Invalid(r.Namespace, "must be the service account's")
	}
	if errs := e.List(); len(errs) > 0 {
		return nil, apierrors.NewInvalid(tokenRequest, name, errs)
	}
	obj, err := d.Objects.Get(ctx, corev1.Resource("serviceaccounts"), namespace, name)
	if err != nil {
		return nil, err
	}
	account := obj.(*corev1.ServiceAccount)
	if r.UID != "" && r.UID != account.UID {
		return nil, apierrors.NewConflict(schema.GroupResource{Group: tokenRequest.Group, Resource: tokenRequest.Kind}, name,
			fmt.Errorf("the UID in the request (%s) is not the service account's (%s)", r.UID, account.UID))
	}
	now := d.Now()
	r.Name, r.Namespace, r.UID = account.Name, account.Namespace, account.UID
	r.CreationTimestamp = metav1.Time{Time: now}
	r.Status = authenticationv1.TokenRequestStatus{}
	if len(r.Spec.Audiences) == 0 {
		r.Spec.Audiences = d.Tokens.Audiences()
	}
	spec := rules.At(field.NewPath("spec"))
	spec.Range("expirationSeconds", *r.Spec.ExpirationSeconds, 10*60, 1<<32)
	if errs := spec.List(); len(errs) > 0 {
		return nil, apierrors.NewInvalid(tokenRequest, "", errs)
	}
	bound, err := d.boundObject(ctx, namespace, name, r.Spec.BoundObjectRef)
	if err != nil {
		return nil, err
	}
	if limit := int64(d.Tokens.MaxLifetime() / time.Second); limit > 0 && *r.Spec.ExpirationSeconds > limit {
		request.AddWarning(ctx, fmt.Sprintf("requested expiration of %d seconds shortened to %d seconds", *r.Spec.ExpirationSeconds, limit))
		*r.Spec.ExpirationSeconds = limit
	}
	token, err := d.Tokens.Sign(ctx, account, bound, &r.Spec)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("sign a token: %w", err))
	}
	lifetime := time.Duration(*r.Spec.ExpirationSeconds) * time.Second
	r.Status = authenticationv1.TokenRequestStatus{Token: token, ExpirationTimestamp: metav1.Time{Time: now.Add(lifetime)}}
	return r, nil
}

// boundObject finds what a token is to be bound to; nil where ref is.
func (d Deps) boundObject(ctx context.Context, namespace, account string, ref *authenticationv1.BoundObjectReference) (*BoundObject, error) {
	if ref == nil {
		return nil, nil
	}
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	resource := map[string]string{"Pod": "pods", "Secret": "secrets", "Node": "nodes"}[kind.Kind]
	if kind.Group != "" || resource == "" {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("a token cannot be bound to a %s", kind))
	}
	if resource == "nodes" {
		namespace = ""
	}
	obj, err := d.Objects.Get(ctx, corev1.Resource(resource), namespace, ref.Name)
	if err != nil {
		return nil, err
	}
	bound := &BoundObject{Kind: kind.Kind, Name: ref.Name, UID: obj.GetUID()}
	if p, ok := obj.(*corev1.Pod); ok {
		if p.Spec.ServiceAccountName != account {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("the pod runs with another service account than %q", account))
		}
		if err := d.findNode(ctx, p.Spec.NodeName, bound); err != nil {
			return nil, err
		}
	}
	if ref.UID != "" && ref.UID != bound.UID {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: kind.Kind}, ref.Name,
			fmt.Errorf("the UID in the reference (%s) is not the object's: it may have been deleted and made again", ref.UID))
	}
	return bound, nil
}

// findNode notes where a bound pod runs; the node may be gone.
func (d Deps) findNode(ctx context.Context, name string, bound *BoundObject) error {
	if name == "" {
		return nil
	}
	bound.Node = name
	obj, err := d.Objects.Get(ctx, corev1.Resource("nodes"), "", name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	bound.NodeUID = obj.GetUID()
	return nil
}
