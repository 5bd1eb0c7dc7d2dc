//lint:file-ignore SA1019 deprecated fields are still served

package core

import (
	"context"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func nodes(d Deps) *engine.Resource {
	return &engine.Resource{
		Plural: "nodes", Kind: "Node",
		ShortNames: []string{"no"},
		Prefix:     "minions",
		Versions:   only(engine.VersionOf[corev1.Node, corev1.NodeList](v1, defaultNode)),
		Rules: engine.Typed[*corev1.Node]{
			// A new node may have a status: kubelets register with one.
			PrepareCreate: func(_ context.Context, n *corev1.Node) {
				n.Spec.ConfigSource = nil
				n.Status.Config = nil
			},
			Validate: func(_ context.Context, n *corev1.Node) field.ErrorList { return validateNode(n, d.sloppy()) },
			Warn:     func(_ context.Context, n, _ *corev1.Node) []string { return warnNode(n) },
			PrepareUpdate: func(_ context.Context, n, old *corev1.Node) {
				n.Status = old.Status
				if old.Spec.ConfigSource == nil {
					n.Spec.ConfigSource = nil
				}
			},
			ValidateUpdate: func(ctx context.Context, n, old *corev1.Node) field.ErrorList {
				return append(validateNode(n, d.sloppy()), validateNodeUpdate(ctx, n, old)...)
			},
			Reset: engine.ResetStatus,
		}.Rules(),
		Subresources: []*engine.Subresource{
			proxySubresource("NodeProxyOptions", func(path string) runtime.Object { return &corev1.NodeProxyOptions{Path: path} }),
			engine.Status(engine.Typed[*corev1.Node]{
				PrepareUpdate: func(_ context.Context, n, old *corev1.Node) {
					if old.Status.Config == nil {
						n.Status.Config = nil
					}
				},
				ValidateUpdate: validateNodeUpdate,
			}),
		},
		Fields: engine.Fields(func(n *corev1.Node) fields.Set {
			return fields.Set{"spec.unschedulable": strconv.FormatBool(n.Spec.Unschedulable)}
		}),
		Table: nodeTable(),
	}
}

func defaultNode(n *corev1.Node) {
	// podCIDR and podCIDRs[0] are the same field for old and new clients.
	s := &n.Spec
	if s.PodCIDR != "" && (len(s.PodCIDRs) == 0 || s.PodCIDRs[0] != s.PodCIDR) {
		s.PodCIDRs = []string{s.PodCIDR}
	}
	if len(s.PodCIDRs) > 0 {
		s.PodCIDR = s.PodCIDRs[0]
	}
	if len(n.Status.Allocatable) == 0 { // an empty map is stored as none
		n.Status.Allocatable = maps.Clone(n.Status.Capacity)
	}
	for i := range n.Status.Images {
		if img := &n.Status.Images[i]; len(img.Names) == 0 {
			img.Names = nil
		}
	}
	rules.DefaultResources(n.Status.Capacity, n.Status.Allocatable)
}
