package noderestriction

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/object/equal"
)

// admitNode lets a node write its own object, except for fields that could
// attract pods not meant for it.
func admitNode(a *admission.Attributes, name string) error {
	if a.Name != name {
		return admission.Forbiddenf(a, "node %q is not allowed to modify node %q", name, a.Name)
	}
	if a.Operation == admission.Delete {
		return nil
	}
	node, ok := a.Object.(*corev1.Node)
	if !ok {
		return admission.Forbiddenf(a, "unexpected type %T", a.Object)
	}
	if a.Operation == admission.Create {
		//lint:ignore SA1019 a field that is deprecated can still be sent
		if node.Spec.ConfigSource != nil {
			return admission.Forbiddenf(a, "node %q is not allowed to create nodes with a non-nil configSource", name)
		}
		if bad := reserved(node.Labels, nil); len(bad) > 0 {
			return admission.Forbiddenf(a, "node %q is not allowed to set the following labels: %s", name, strings.Join(bad, ", "))
		}
		return nil
	}
	old, ok := a.OldObject.(*corev1.Node)
	if !ok {
		return admission.Forbiddenf(a, "unexpected type %T", a.OldObject)
	}
	//lint:ignore SA1019 a field that is deprecated can still be sent
	source, oldSource := node.Spec.ConfigSource, old.Spec.ConfigSource
	switch {
	case source != nil && !apiequality.Semantic.DeepEqual(source, oldSource):
		return admission.Forbiddenf(a, "node %q is not allowed to update configSource to a new non-nil configSource", name)
	case !equal.Objects(&node.Spec.Taints, &old.Spec.Taints):
		return admission.Forbiddenf(a, "node %q is not allowed to modify taints", name)
	case !equal.Objects(&node.OwnerReferences, &old.OwnerReferences):
		return admission.Forbiddenf(a, "node %q is not allowed to modify ownerReferences", name)
	}
	if bad := reserved(node.Labels, old.Labels); len(bad) > 0 {
		return admission.Forbiddenf(a, "is not allowed to modify labels: %s", strings.Join(bad, ", "))
	}
	return nil
}

// kubeletLabels are labels of Kubernetes that a node may set on itself.
var kubeletLabels = []string{
	corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
	corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
	corev1.LabelInstanceType, corev1.LabelInstanceTypeStable, corev1.LabelOSStable, corev1.LabelArchStable,
	"beta.kubernetes.io/os", "beta.kubernetes.io/arch",
}

// reserved returns the labels that differ and that a node may not change, sorted.
func reserved(labels, old map[string]string) (bad []string) {
	for key, value := range labels {
		if was, ok := old[key]; (!ok || was != value) && isReserved(key) {
			bad = append(bad, key)
		}
	}
	for key := range old {
		if _, ok := labels[key]; !ok && isReserved(key) {
			bad = append(bad, key)
		}
	}
	slices.Sort(bad)
	return bad
}

func isReserved(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	within := func(parent string) bool { return domain == parent || strings.HasSuffix(domain, "."+parent) }
	switch {
	case !ok:
		return false
	case within(corev1.LabelNamespaceNodeRestriction):
		return true
	case slices.Contains(kubeletLabels, key), within(corev1.LabelNamespaceSuffixKubelet), within(corev1.LabelNamespaceSuffixNode):
		return false
	}
	return within("kubernetes.io") || within("k8s.io")
}

// admitClaim lets a node report only the size and conditions of a claim.
func admitClaim(a *admission.Attributes, name string) error {
	if a.Subresource != "status" {
		return admission.Forbiddenf(a, "may only update PVC status")
	}
	if a.Operation != admission.Update {
		return admission.Forbiddenf(a, "unexpected operation %q", a.Operation)
	}
	claim, ok := a.Object.(*corev1.PersistentVolumeClaim)
	old, okOld := a.OldObject.(*corev1.PersistentVolumeClaim)
	if !ok || !okOld {
		return admission.Forbiddenf(a, "unexpected type %T", a.Object)
	}
	if !apiequality.Semantic.DeepEqual(withoutReport(claim), withoutReport(old)) {
		return admission.Forbiddenf(a, "node %q is not allowed to update fields other than status.quantity and status.conditions", name)
	}
	return nil
}

func withoutReport(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	c := claim.DeepCopy()
	c.ResourceVersion, c.ManagedFields = "", nil
	s := &c.Status
	s.Capacity, s.Conditions, s.AllocatedResources, s.AllocatedResourceStatuses = nil, nil, nil, nil
	return c
}
