package policy

import (
	"context"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/expr"
)

// param is one parameter that a policy is evaluated with.
type param struct {
	namespace, name string
	value           any // a tree of maps; nil: none
}

// known refuses a policy whose kind of parameters is not served.
func (d *Deps) known(p *policy) error {
	if p.paramKind == nil {
		return nil
	}
	if _, ok := d.Params.Namespaced(*p.paramKind); !ok {
		return fmt.Errorf("failed to find resource referenced by paramKind: '%v'", *p.paramKind)
	}
	return nil
}

// params returns the parameters with which a binding evaluates its policy, one
// after the other. For a policy without parameters it is one empty param; an
// empty list means that the policy is not evaluated.
func (d *Deps) params(ctx context.Context, p *policy, b *binding, namespace string) ([]param, error) {
	kind, ref := p.paramKind, b.paramRef
	if kind == nil || ref == nil {
		return []param{{}}, nil
	}
	namespaced, _ := d.Params.Namespaced(*kind)
	switch {
	case !namespaced && ref.Namespace != "":
		return nil, errors.New("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
	case !namespaced:
		namespace = ""
	case ref.Namespace != "":
		namespace = ref.Namespace
	case namespace == "":
		return nil, errors.New("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
	}
	objs, err := d.find(ctx, *kind, ref, namespace)
	if err != nil {
		return nil, err
	}
	if len(objs) == 0 && ref.ParameterNotFoundAction != nil && *ref.ParameterNotFoundAction == admissionv1.DenyAction {
		return nil, errors.New("no params found for policy binding with `Deny` parameterNotFoundAction")
	}
	out := make([]param, 0, len(objs))
	for _, obj := range objs {
		out = append(out, param{obj.GetNamespace(), obj.GetName(), expr.Value(obj)})
	}
	return out, nil
}

func (d *Deps) find(ctx context.Context, kind schema.GroupVersionKind, ref *admissionv1.ParamRef, namespace string) ([]admission.Object, error) {
	switch {
	case ref.Name != "" && ref.Selector != nil:
		return nil, errors.New("paramRef.name and paramRef.selector are mutually exclusive")
	case ref.Name != "":
		obj, err := d.Params.Get(ctx, kind, namespace, ref.Name)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return []admission.Object{obj}, nil
	case ref.Selector == nil:
		return nil, errors.New("one of name or selector must be provided")
	}
	selector, err := metav1.LabelSelectorAsSelector(ref.Selector)
	if err != nil {
		return nil, err
	}
	all, err := d.Params.List(ctx, kind, namespace)
	if err != nil {
		return nil, err
	}
	var out []admission.Object
	for _, obj := range all {
		if selector.Matches(labels.Set(obj.GetLabels())) {
			out = append(out, obj)
		}
	}
	return out, nil
}
