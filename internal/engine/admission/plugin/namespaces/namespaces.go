// Package namespaces has the plugins that create missing namespaces, or refuse
// writes into them.
package namespaces

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// Names of the plugins in --enable-admission-plugins.
const (
	AutoProvisionName = "NamespaceAutoProvision"
	ExistsName        = "NamespaceExists"
)

// AutoProvision makes the plugin that creates the namespace of a new object if
// there is none.
func AutoProvision(objects admission.Objects, create func(ctx context.Context, name string) error) admission.Plugin {
	return admission.Plugin{
		Name: AutoProvisionName, On: []admission.Operation{admission.Create},
		Mutator: admission.Func(func(ctx context.Context, a *admission.Attributes) error {
			if a.DryRun || a.Namespace == "" || a.Resource.GroupResource() == admission.Namespaces {
				return nil
			}
			err := seen(ctx, objects, a.Namespace)
			if apierrors.IsNotFound(err) {
				err = create(ctx, a.Namespace)
			}
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return admission.Forbidden(a, err)
			}
			return nil
		}),
	}
}

// Exists makes the plugin that refuses writes into namespaces that do not exist.
func Exists(objects admission.Objects) admission.Plugin {
	return admission.Plugin{
		Name: ExistsName, On: []admission.Operation{admission.Create, admission.Update, admission.Delete},
		Validator: admission.Func(func(ctx context.Context, a *admission.Attributes) error {
			if a.Namespace == "" || a.Resource.GroupResource() == admission.Namespaces {
				return nil
			}
			err := seen(ctx, objects, a.Namespace)
			if err != nil && !apierrors.IsNotFound(err) {
				return apierrors.NewInternalError(err)
			}
			return err
		}),
	}
}

func seen(ctx context.Context, objects admission.Objects, name string) error {
	_, err := admission.Seen[*corev1.Namespace](ctx, objects, admission.Namespaces, "", name)
	return err
}
