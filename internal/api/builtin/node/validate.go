package node

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/podspec"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func validate(_ context.Context, c *nodev1.RuntimeClass) field.ErrorList {
	e := rules.At(nil)
	e.Add(rules.GenericMeta(&c.ObjectMeta, false, rules.Subdomain))
	if e.Present("handler", c.Handler) {
		e.Name("handler", c.Handler, rules.Label)
	}
	if c.Overhead != nil {
		overhead(c.Overhead.PodFixed, e.Elsewhere(field.NewPath("overhead")))
	}
	if s := c.Scheduling; s != nil {
		e.Elsewhere(field.NewPath("scheduling")).Labels("nodeSelector", s.NodeSelector)
		tolerations(s.Tolerations, e.Elsewhere(field.NewPath("scheduling", "tolerations")))
	}
	return e.List()
}

func validateUpdate(ctx context.Context, c, old *nodev1.RuntimeClass) field.ErrorList {
	e := rules.At(nil)
	e.Add(validate(ctx, c))
	e.Add(rules.GenericMetaUpdate(&c.ObjectMeta, &old.ObjectMeta))
	e.Fixed("handler", c.Handler, old.Handler)
	return e.List()
}

// overhead is validated like the limits of a container.
func overhead(list corev1.ResourceList, e rules.Errors) {
	compute, pages := false, false
	for name, q := range list {
		at := e.Field("limits").Key(string(name))
		at.ContainerResourceName(name)
		at.Quantity(name, q)
		if rules.IsHugePages(name) {
			pages = true
			if !rules.WholePages(name, q) {
				at.Invalid(q.String(), "must be a multiple of the size of the pages")
			}
		}
		compute = compute || name == corev1.ResourceCPU || name == corev1.ResourceMemory
	}
	if pages && !compute {
		e.Forbidden("huge pages need cpu or memory")
	}
}

func tolerations(list []corev1.Toleration, e rules.Errors) {
	e.Add(podspec.ValidateTolerations(list, e.Path(), podspec.Options{}))
	seen := map[corev1.Toleration]bool{}
	for i, t := range list {
		t.TolerationSeconds = nil
		if seen[t] {
			e.Item(i).Duplicate(list[i])
		}
		seen[t] = true
	}
}
