package podspec

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// Policy is the cluster's policy for pods. It applies to every kind with a pod spec, and to stored specs too.
type Policy struct {
	// ForbidPrivileged rejects privileged containers and Windows HostProcess containers.
	ForbidPrivileged bool
	// Gates says which features are on.
	Gates features.Set
}

// Options configure validation. The zero value is for new templates. Most options relax a rule for stored objects: a
// rule that became stricter must not block updates of old objects.
type Options struct {
	// Pod means that the spec is in a pod, not in a template.
	Pod bool
	Policy

	AllowIndivisibleHugePages      bool
	AllowInvalidAffinitySelectors  bool
	AllowInvalidNodeAffinityValues bool
	AllowInvalidSpreadSelectors    bool
	// FormerSpreadKeys has matchLabelKeys of spread constraints judged as before they were merged into the selector.
	FormerSpreadKeys                   bool
	AllowNonLocalTokenPaths            bool
	AllowSysctlsOfHost                 bool
	AllowComparingTolerations          bool
	AllowAnySELinuxChangePolicy        bool
	AllowHostNetworkWithUserNamespaces bool
	AllowDevicesWithUserNamespaces     bool
	AllowRestartOnResizeInInit         bool
	AllowRestartAll                    bool
	AllowInvalidDeletionCost           bool

	// oldResponders are the eviction responders of the spec that is replaced.
	oldResponders []corev1.EvictionResponder
}

// OptionsForTemplate returns the options for a template that replaces old, which is nil on create.
func OptionsForTemplate(p Policy, old *corev1.PodTemplateSpec) Options {
	if old == nil {
		return OptionsFor(p, nil, nil)
	}
	return OptionsFor(p, &old.Spec, &old.ObjectMeta)
}

// OptionsFor returns the options for a spec that replaces old with its metadata, which are nil on create.
func OptionsFor(p Policy, old *corev1.PodSpec, oldMeta *metav1.ObjectMeta) Options {
	merged := p.MergesSpreadKeys()
	o := Options{Policy: p, FormerSpreadKeys: !merged}
	if old == nil {
		return o
	}
	o.AllowIndivisibleHugePages = usesIndivisibleHugePages(old)
	o.AllowInvalidAffinitySelectors = hasInvalidAffinitySelector(old.Affinity)
	if a := old.Affinity; a != nil && a.NodeAffinity != nil {
		o.AllowInvalidNodeAffinityValues = rules.InvalidNodeSelectorValues(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	for i := range old.TopologySpreadConstraints {
		c := &old.TopologySpreadConstraints[i]
		if rules.InvalidLabelSelector(c.LabelSelector) {
			o.AllowInvalidSpreadSelectors = true
		}
		e := rules.At(nil)
		spreadKeys(c, !merged, e)
		if len(e.List()) > 0 && p.Gates.Enabled(features.MatchLabelKeysInPodTopologySpread) {
			o.FormerSpreadKeys = merged // the gate was another one when this was written
		}
	}
	o.AllowNonLocalTokenPaths = anyProjection(old, func(p *corev1.VolumeProjection) bool {
		if p.ServiceAccountToken == nil {
			return false
		}
		e := rules.At(nil)
		e.VolumeFile("path", p.ServiceAccountToken.Path)
		return len(e.List()) > 0
	})
	for _, t := range old.Tolerations {
		if t.Operator == corev1.TolerationOpLt || t.Operator == corev1.TolerationOpGt {
			o.AllowComparingTolerations = true
		}
	}
	if s := old.SecurityContext; s != nil {
		for _, sysctl := range s.Sysctls {
			if sysctlOfHost(old, sysctl.Name) != "" {
				o.AllowSysctlsOfHost = true
			}
		}
		o.AllowAnySELinuxChangePolicy = s.SELinuxChangePolicy != nil
	}
	if ownUsers(old) {
		o.AllowHostNetworkWithUserNamespaces = old.HostNetwork
		o.AllowDevicesWithUserNamespaces = anyContainer(old, func(c *corev1.Container) bool { return len(c.VolumeDevices) > 0 })
	}
	o.AllowRestartAll = RestartsAll(old)
	for i := range old.InitContainers {
		c := &old.InitContainers[i]
		if !IsSidecar(c) && restartsOnResize(c) {
			o.AllowRestartOnResizeInInit = true
		}
		if IsSidecar(c) && len(c.RestartPolicyRules) > 0 { // these came with the same feature
			o.AllowRestartAll = true
		}
	}
	o.oldResponders = old.EvictionResponders
	if oldMeta != nil {
		o.AllowInvalidDeletionCost = !validDeletionCost(oldMeta.Annotations)
	}
	return o
}

// ownUsers reports whether a pod has its own user namespace.
func ownUsers(spec *corev1.PodSpec) bool { return spec.HostUsers != nil && !*spec.HostUsers }

func restartsOnResize(c *corev1.Container) bool {
	for _, p := range c.ResizePolicy {
		if p.RestartPolicy == corev1.RestartContainer {
			return true
		}
	}
	return false
}

func usesIndivisibleHugePages(spec *corev1.PodSpec) bool {
	indivisible := func(lists ...corev1.ResourceList) bool {
		for _, l := range lists {
			for name, q := range l {
				if rules.IsHugePages(name) && !rules.WholePages(name, q) {
					return true
				}
			}
		}
		return false
	}
	return indivisible(spec.Overhead) || anyContainer(spec, func(c *corev1.Container) bool {
		return indivisible(c.Resources.Limits, c.Resources.Requests)
	})
}

func hasInvalidAffinitySelector(a *corev1.Affinity) bool {
	invalid := false
	eachPodAffinityTerm(a, func(t *corev1.PodAffinityTerm) {
		if rules.InvalidLabelSelector(t.LabelSelector) || rules.InvalidLabelSelector(t.NamespaceSelector) {
			invalid = true
		}
	})
	return invalid
}

func eachPodAffinityTerm(a *corev1.Affinity, visit func(*corev1.PodAffinityTerm)) {
	if a == nil {
		return
	}
	var required [2][]corev1.PodAffinityTerm
	var preferred [2][]corev1.WeightedPodAffinityTerm
	if p := a.PodAffinity; p != nil {
		required[0], preferred[0] = p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution
	}
	if p := a.PodAntiAffinity; p != nil {
		required[1], preferred[1] = p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution
	}
	for n := range required {
		for i := range required[n] {
			visit(&required[n][i])
		}
		for i := range preferred[n] {
			visit(&preferred[n][i].PodAffinityTerm)
		}
	}
}

// validDeletionCost reports whether the pod deletion cost annotation, if set, is a plain number.
func validDeletionCost(annotations map[string]string) bool {
	v, found := annotations[corev1.PodDeletionCost]
	if !found {
		return true
	}
	plain := v == "0" || v != "" && (v[0] == '-' || '1' <= v[0] && v[0] <= '9')
	_, err := strconv.ParseInt(v, 10, 32)
	return plain && err == nil
}

// anyProjection reports whether is returns true for a projected source of spec.
func anyProjection(spec *corev1.PodSpec, is func(*corev1.VolumeProjection) bool) bool {
	for i := range spec.Volumes {
		p := spec.Volumes[i].Projected
		if p == nil {
			continue
		}
		for j := range p.Sources {
			if is(&p.Sources[j]) {
				return true
			}
		}
	}
	return false
}
