package match

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// Namespaces finds the labels of namespaces. A missing namespace is an
// apierrors NotFound.
type Namespaces interface {
	NamespaceLabels(ctx context.Context, name string) (labels.Set, error)
}

// Selectors select writes by labels.
type Selectors struct {
	namespace, object labels.Selector
	// The error of a selector that could not be parsed. Match returns it when
	// it needs that selector.
	namespaceErr, objectErr error
}

// NewSelectors parses the selectors of a webhook, policy or binding.
func NewSelectors(namespace, object *metav1.LabelSelector) Selectors {
	var s Selectors
	s.namespace, s.namespaceErr = metav1.LabelSelectorAsSelector(namespace)
	s.object, s.objectErr = metav1.LabelSelectorAsSelector(object)
	return s
}

// Match says whether a write that matches the rules is also selected. Its error
// refuses the write; it is returned only if the other selector does not exclude
// the write.
func (s *Selectors) Match(ctx context.Context, a *admission.Attributes, n Namespaces) (bool, error) {
	inNamespace, nsErr := s.matchNamespace(ctx, a, n)
	if !inNamespace && nsErr == nil {
		return false, nil
	}
	isObject, objErr := s.matchObject(a)
	if !isObject && objErr == nil {
		return false, nil
	}
	if nsErr != nil {
		return false, nsErr
	}
	return objErr == nil, objErr
}

func (s *Selectors) matchNamespace(ctx context.Context, a *admission.Attributes, n Namespaces) (bool, error) {
	isNamespace := a.Resource.Resource == "namespaces"
	if a.Namespace == "" && !isNamespace {
		return true, nil
	}
	if s.namespaceErr != nil {
		return false, apierrors.NewInternalError(s.namespaceErr)
	}
	if s.namespace.Empty() {
		return true, nil
	}
	if isNamespace && a.Subresource == "" && (a.Operation == admission.Create || a.Operation == admission.Update) {
		// The labels of the new namespace count, not those of the stored one.
		m, err := meta.Accessor(a.Object)
		if err != nil {
			return false, apierrors.NewInternalError(err)
		}
		return s.namespace.Matches(labels.Set(m.GetLabels())), nil
	}
	set, err := n.NamespaceLabels(ctx, a.Namespace)
	if apierrors.IsNotFound(err) {
		return false, err
	}
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	return s.namespace.Matches(set), nil
}

// matchObject selects by the labels of the new or the old object.
func (s *Selectors) matchObject(a *admission.Attributes) (bool, error) {
	if s.objectErr != nil {
		return false, apierrors.NewInternalError(s.objectErr)
	}
	if s.object.Empty() {
		return true, nil
	}
	return labelled(a.Object, s.object) || labelled(a.OldObject, s.object), nil
}

func labelled(obj runtime.Object, s labels.Selector) bool {
	if obj == nil {
		return false
	}
	m, err := meta.Accessor(obj)
	return err == nil && s.Matches(labels.Set(m.GetLabels()))
}
