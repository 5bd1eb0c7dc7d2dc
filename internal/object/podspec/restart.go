package podspec

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// RestartsAll reports whether the exit of one container may restart all of them.
func RestartsAll(spec *corev1.PodSpec) bool {
	return anyContainer(spec, func(c *corev1.Container) bool {
		return slices.ContainsFunc(c.RestartPolicyRules, func(r corev1.ContainerRestartRule) bool {
			return r.Action == corev1.ContainerRestartRuleActionRestartAllContainers
		})
	})
}

// Restarts reports whether a container restarts after it exited with code: by the first of its rules that matches, else
// by its own policy, else by the pod's.
func Restarts(c *corev1.Container, spec *corev1.PodSpec, code int32) bool {
	policy := string(spec.RestartPolicy)
	if c.RestartPolicy != nil {
		if slices.ContainsFunc(c.RestartPolicyRules, func(r corev1.ContainerRestartRule) bool { return matches(r.ExitCodes, code) }) {
			return true
		}
		policy = string(*c.RestartPolicy)
	}
	switch policy {
	case string(corev1.RestartPolicyOnFailure):
		return code != 0
	case string(corev1.RestartPolicyNever):
		return false
	}
	return true
}

func matches(on *corev1.ContainerRestartRuleOnExitCodes, code int32) bool {
	if on == nil {
		return false
	}
	return slices.Contains(on.Values, code) == (on.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn)
}
