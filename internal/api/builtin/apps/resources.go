// Package apps is the API group apps/v1: deployments, replica sets, stateful sets, daemon sets, and the controller
// revisions of the last two. Each file contains one kind: its Resource, defaults, update preparation and validation.
package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/podspec"
)

var v1 = appsv1.SchemeGroupVersion

// Deps is what the rules of this group need from the rest of the server.
type Deps struct {
	// Pods is what the cluster allows its pods.
	Pods podspec.Policy
	// Gates says which features are on.
	Gates features.Set
}

// Resources returns every resource of the group.
func Resources(d Deps) []*engine.Resource {
	return engine.Kinds(
		controllerRevisions(),
		daemonSets(d),
		deployments(d),
		replicaSets(d),
		statefulSets(d),
	)
}

// scaled is what a scale reads and writes of a kind.
type scaled struct {
	replicas *int32
	status   int32
	selector *metav1.LabelSelector
}

// scale returns the scale subresource of a kind.
func scale[T engine.Object](get func(obj T) scaled, set func(obj T, replicas int32)) *engine.Subresource {
	return &engine.Subresource{
		Name: "scale", Verbs: []string{"get", "patch", "update"},
		Kind: schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"},
		Scale: &engine.Scale{
			Get: func(obj engine.Object) (int32, int32, string, error) {
				s := get(obj.(T))
				var replicas int32
				if s.replicas != nil {
					replicas = *s.replicas
				}
				selector, err := metav1.LabelSelectorAsSelector(s.selector)
				if err != nil {
					return 0, 0, "", err
				}
				return replicas, s.status, selector.String(), nil
			},
			Set:  func(obj engine.Object, replicas int32) error { set(obj.(T), replicas); return nil },
			Path: fieldpath.MakePathOrDie("spec", "replicas"),
		},
	}
}
