package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/request"
)

// ParamAccess stops authors of policies and bindings from reading, through CEL,
// parameter objects that they may not read directly. For an unknown kind they
// must be allowed to read everything.
type ParamAccess struct {
	Objects    admission.Objects
	Resources  func(gvk schema.GroupVersionKind) ([]admission.Resource, error)
	Authorizer authz.Authorizer
}

// MayReadKind checks access to all objects of a policy's kind of parameters.
func (p ParamAccess) MayReadKind(ctx context.Context, kind admissionv1.ParamKind) error {
	u, err := reader(ctx, "paramKind resources")
	if u == nil {
		return err
	}
	at, _, _ := p.of(&kind)
	at.Verb, at.Name, at.Namespace = "get", "*", "*"
	if allowed, err := p.ask(ctx, u, at); allowed || err != nil {
		return err
	}
	return fmt.Errorf(`user %v must have "get" permission on all objects of the referenced paramKind (kind=%s, apiVersion=%s)`, u, kind.Kind, kind.APIVersion)
}

// MayRead checks access to the objects that a binding refers to.
func (p ParamAccess) MayRead(ctx context.Context, policyKind, name string, ref *admissionv1.ParamRef) error {
	u, err := reader(ctx, "paramRef object")
	if u == nil {
		return err
	}
	kind, policyErr := p.kindOf(ctx, policyKind, name)
	at, parseErr, findErr := p.of(kind)
	at.Verb, at.Name, at.Namespace = "get", ref.Name, ref.Namespace
	if ref.Name == "" {
		at.Verb = "list"
	}
	allowed, err := p.ask(ctx, u, at)
	const all = `to determine minimum required permissions and user %v does not have "%v" permission for all groups, versions and resources`
	switch {
	case err != nil:
		return fmt.Errorf("failed to authorize request: %w", err)
	case allowed:
		return nil
	case policyErr != nil:
		return fmt.Errorf("unable to get policy %s "+all, name, u, at.Verb)
	case parseErr != nil:
		return fmt.Errorf("unable to parse paramKind %v "+all, kind, u, at.Verb)
	case findErr != nil:
		return fmt.Errorf("unable to resolve paramKind %v "+all, kind, u, at.Verb)
	}
	return fmt.Errorf(`user %v does not have "%v" permission on the object referenced by paramRef`, u, at.Verb)
}

// reader returns the user whose access to parameters must be checked; nil
// without an error: a user who may do everything.
func reader(ctx context.Context, what string) (user.Info, error) {
	u := request.UserFrom(ctx)
	if u == nil {
		return nil, errors.New("cannot identify user to authorize read access to " + what)
	}
	if slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup) {
		return nil, nil
	}
	return u, nil
}

// kindOf returns the kind of a policy's parameters; nil: it has none.
func (p ParamAccess) kindOf(ctx context.Context, policyKind, name string) (*admissionv1.ParamKind, error) {
	if policyKind == "MutatingAdmissionPolicy" {
		obj, err := admission.Seen[*admissionv1.MutatingAdmissionPolicy](ctx, p.Objects, admissionv1.Resource("mutatingadmissionpolicies"), "", name)
		if err != nil {
			return nil, err
		}
		return obj.Spec.ParamKind, nil
	}
	obj, err := admission.Seen[*admissionv1.ValidatingAdmissionPolicy](ctx, p.Objects, admissionv1.Resource("validatingadmissionpolicies"), "", name)
	if err != nil {
		return nil, err
	}
	return obj.Spec.ParamKind, nil
}

// of returns attributes for a kind, with wildcards for what is unknown.
func (p ParamAccess) of(kind *admissionv1.ParamKind) (at *authz.Attributes, parseErr, findErr error) {
	at = &authz.Attributes{IsResource: true, Group: "*", Version: "*", Resource: "*"}
	if kind == nil {
		return at, nil, nil
	}
	gv, err := schema.ParseGroupVersion(kind.APIVersion)
	if err != nil {
		return at, err, nil
	}
	at.Group, at.Version = gv.Group, gv.Version
	found, err := p.Resources(gv.WithKind(kind.Kind))
	if err != nil {
		return at, nil, err
	}
	at.Resource = found[0].Resource
	return at, nil, nil
}

func (p ParamAccess) ask(ctx context.Context, u user.Info, at *authz.Attributes) (bool, error) {
	at.User = u
	decision, _, err := p.Authorizer.Authorize(ctx, at)
	if decision == authz.Allow {
		return true, nil
	}
	return false, err
}
