// Package node is the API group node.k8s.io/v1: runtime classes.
package node

import (
	"context"
	"maps"
	"slices"

	nodev1 "k8s.io/api/node/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

var v1 = nodev1.SchemeGroupVersion

// Resources returns every resource of the group.
func Resources() []*engine.Resource {
	return engine.Kinds(runtimeClasses())
}

func runtimeClasses() *engine.Resource {
	return &engine.Resource{
		Plural: "runtimeclasses", Kind: "RuntimeClass",
		Versions: []*engine.Version{engine.VersionOf[nodev1.RuntimeClass, nodev1.RuntimeClassList](v1, defaultRuntimeClass)},
		Rules: engine.Typed[*nodev1.RuntimeClass]{
			Validate:             validate,
			ValidateUpdate:       validateUpdate,
			Warn:                 warn,
			CreateOnUpdate:       true,
			NeedsResourceVersion: true,
		}.Rules(),
		Table: runtimeClassTable(),
	}
}

func defaultRuntimeClass(c *nodev1.RuntimeClass) {
	if c.Overhead != nil {
		rules.DefaultResources(c.Overhead.PodFixed)
	}
}

func warn(_ context.Context, c, _ *nodev1.RuntimeClass) []string {
	if c.Scheduling == nil {
		return nil
	}
	var out []string
	for _, key := range slices.Sorted(maps.Keys(c.Scheduling.NodeSelector)) {
		if text := rules.DeprecatedNodeLabel(key); text != "" {
			out = append(out, "scheduling.nodeSelector: "+text)
		}
	}
	return out
}
