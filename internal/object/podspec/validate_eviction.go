package podspec

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

const (
	maxResponders = 10
	// Priorities below leastPriority are of responders of Kubernetes itself.
	leastPriority, mostPriority = 1000, 100_000
)

// evictionResponders validates who may respond to the eviction of a pod; those that the pod had before stay valid.
func (v *validator) evictionResponders(e rules.Errors) {
	list := v.spec.EvictionResponders
	if apiequality.Semantic.DeepEqual(list, v.oldResponders) {
		return
	}
	if len(list) > maxResponders {
		e.AddError(field.TooMany(e.Path(), len(list), maxResponders))
		return
	}
	seen := map[string]bool{}
	for i := range list {
		if seen[list[i].Name] {
			e.Item(i).Duplicate(list[i].Name)
		}
		seen[list[i].Name] = true
	}
	for i := range list {
		if !v.hadResponder(&list[i]) {
			evictionResponder(&list[i], e.Item(i))
		}
	}
}

func (v *validator) hadResponder(r *corev1.EvictionResponder) bool {
	for i := range v.oldResponders {
		if v.oldResponders[i].Name == r.Name {
			return apiequality.Semantic.DeepEqual(&v.oldResponders[i], r)
		}
	}
	return false
}

func evictionResponder(r *corev1.EvictionResponder, e rules.Errors) {
	if e.Present("name", r.Name) {
		at := e.Field("name")
		if rules.OfKubernetes(r.Name) {
			at.Invalid(r.Name, "domain names *.k8s.io, *.kubernetes.io are reserved")
		}
		e.Add(validate.PrefixedLabelKey(context.Background(), operation.Operation{}, at.Path(), &r.Name, nil))
	}
	switch p, at := r.Priority, e.Field("priority"); {
	case p == nil:
		at.Required("")
	case *p < 0:
		at.Invalid(*p, "must be greater than or equal to 0")
	case *p < leastPriority:
		at.Invalid(*p, "priorities 0-999 are reserved for responders with *.k8s.io suffix")
	case *p > mostPriority:
		at.Invalid(*p, "must be less than or equal to 100000")
	}
}
