package core

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells"
	"github.com/kanzen-io/kanzen/internal/engine"
)

func nodeTable() *engine.Table {
	info, addresses := corev1.NodeSystemInfo{}.SwaggerDoc(), corev1.NodeStatus{}.SwaggerDoc()["addresses"]
	return engine.TableOf(nodeRow,
		cells.Name(),
		cells.String("Status", "Whether the node is ready and takes pods."),
		cells.String("Roles", "The node's roles, from its labels."),
		cells.Age(),
		cells.String("Version", info["kubeletVersion"]),
		cells.Wide(cells.String("Internal-IP", addresses)),
		cells.Wide(cells.String("External-IP", addresses)),
		cells.Wide(cells.String("OS-Image", info["osImage"])),
		cells.Wide(cells.String("Kernel-Version", info["kernelVersion"])),
		cells.Wide(cells.String("Container-Runtime", info["containerRuntimeVersion"])),
	)
}

func nodeRow(n *corev1.Node) []any {
	info := &n.Status.NodeInfo
	kernel := cells.Or(info.KernelVersion, cells.Unknown)
	if info.Architecture != "" {
		kernel += " (" + info.Architecture + ")"
	}
	return []any{
		n.Name, nodeStatus(n), cells.Or(strings.Join(nodeRoles(n), ","), cells.None), cells.Since(n.CreationTimestamp),
		info.KubeletVersion, nodeAddress(n, corev1.NodeInternalIP), nodeAddress(n, corev1.NodeExternalIP),
		cells.Or(info.OSImage, cells.Unknown), kernel, cells.Or(info.ContainerRuntimeVersion, cells.Unknown),
	}
}

func nodeStatus(n *corev1.Node) string {
	status := "Unknown"
	for _, c := range n.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		status = "NotReady"
		if c.Status == corev1.ConditionTrue {
			status = "Ready"
		}
	}
	if n.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	return status
}

// nodeRoles reads the labels node-role.kubernetes.io/<role> and kubernetes.io/role=<role>.
func nodeRoles(n *corev1.Node) []string {
	var roles []string
	for k, v := range n.Labels {
		role, ok := strings.CutPrefix(k, "node-role.kubernetes.io/")
		if !ok && k == "kubernetes.io/role" {
			role, ok = v, true
		}
		if ok && role != "" {
			roles = append(roles, role)
		}
	}
	slices.Sort(roles)
	return slices.Compact(roles)
}

func nodeAddress(n *corev1.Node, t corev1.NodeAddressType) string {
	for _, a := range n.Status.Addresses {
		if a.Type == t {
			return a.Address
		}
	}
	return cells.None
}
