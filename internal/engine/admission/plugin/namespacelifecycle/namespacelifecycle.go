// Package namespacelifecycle refuses the creation of objects in namespaces that
// do not exist or are being deleted, and the deletion of the namespaces that a
// cluster needs.
package namespacelifecycle

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// Name of the plugin in --enable-admission-plugins.
const Name = "NamespaceLifecycle"

// immortal namespaces cannot be deleted.
var immortal = sets.New(metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic)

// reviews may be about namespaces that do not exist.
var reviews = sets.New("localsubjectaccessreviews")

// Plugin is the admission plugin.
type Plugin struct {
	// Namespace returns the newest state of a namespace, or a NotFound error.
	Namespace func(ctx context.Context, name string) (*corev1.Namespace, error)
}

// New makes the plugin.
func New(objects admission.Objects) admission.Plugin {
	return admission.Plugin{
		Name: Name, On: []admission.Operation{admission.Create, admission.Delete},
		Mutator: &Plugin{Namespace: func(ctx context.Context, name string) (*corev1.Namespace, error) {
			return admission.Seen[*corev1.Namespace](ctx, objects, admission.Namespaces, "", name)
		}},
	}
}

// Admit refuses creations that the namespace does not allow. It is one of the
// mutating plugins, so that the write is refused before others see it.
func (p *Plugin) Admit(ctx context.Context, a *admission.Attributes) error {
	isNamespace := a.Resource.Group == "" && a.Resource.Resource == "namespaces"
	if isNamespace && a.Operation == admission.Delete && immortal.Has(a.Name) {
		return apierrors.NewForbidden(a.Resource.GroupResource(), a.Name, fmt.Errorf("this namespace may not be deleted"))
	}
	if a.Namespace == "" || isNamespace || a.Operation == admission.Delete {
		return nil
	}
	if a.Resource.Group == "authorization.k8s.io" && reviews.Has(a.Resource.Resource) {
		return nil
	}
	ns, err := p.Namespace(ctx, a.Namespace)
	if err != nil {
		return err
	}
	if ns.Status.Phase != corev1.NamespaceTerminating && ns.DeletionTimestamp == nil {
		return nil
	}
	refused := apierrors.NewForbidden(a.Resource.GroupResource(), admission.NameOf(a),
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", a.Namespace))
	refused.ErrStatus.Details.Causes = append(refused.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", a.Namespace), Field: "metadata.namespace",
	})
	return refused
}
