package rules

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

var deprecatedNodeLabels = map[string]string{
	"beta.kubernetes.io/arch":                       `deprecated since v1.14; use "kubernetes.io/arch" instead`,
	"beta.kubernetes.io/os":                         `deprecated since v1.14; use "kubernetes.io/os" instead`,
	"failure-domain.beta.kubernetes.io/region":      `deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
	"failure-domain.beta.kubernetes.io/zone":        `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
	"beta.kubernetes.io/instance-type":              `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`,
	"app.kubernetes.io/created-by":                  `deprecated since v1.9`,
	"scheduler.alpha.kubernetes.io/preferAvoidPods": `deprecated since v1.22; use Taints and Tolerations instead`,
	"node-role.kubernetes.io/master":                `use "node-role.kubernetes.io/control-plane" instead`,
}

// DeprecatedNodeLabel returns the warning about a deprecated node label, or "".
func DeprecatedNodeLabel(key string) string { return deprecatedNodeLabels[key] }

// WarnNodeSelectorTerm returns the warnings about a node selector term. values also checks label values, which
// validation may not.
func WarnNodeSelectorTerm(t *corev1.NodeSelectorTerm, values bool, path *field.Path) []string {
	var out []string
	for i, r := range t.MatchExpressions {
		at := path.Child("matchExpressions").Index(i)
		if advice := DeprecatedNodeLabel(r.Key); advice != "" {
			out = append(out, fmt.Sprintf("%s: %s is %s", at.Child("key"), r.Key, advice))
		}
		if !values {
			continue
		}
		for j, v := range r.Values {
			for _, m := range validation.IsValidLabelValue(v) {
				out = append(out, fmt.Sprintf("%s: %s is invalid, %s", at.Child("values").Index(j), v, m))
			}
		}
	}
	return out
}

// WarnIP returns a warning about an IP address in a non-canonical form.
func WarnIP(path *field.Path, value string) []string {
	if netutils.ParseIPSloppy(value) == nil {
		return nil
	}
	return validation.GetWarningsForIP(path, value)
}

// WarnCIDR is WarnIP for address ranges.
func WarnCIDR(path *field.Path, value string) []string {
	if _, _, err := netutils.ParseCIDRSloppy(value); err != nil {
		return nil
	}
	return validation.GetWarningsForCIDR(path, value)
}
