// Package tolerations compares and merges the tolerations of pods.
package tolerations

import (
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// Merge merges two lists and leaves out each toleration that another one
// covers. Of equal ones the first stays.
func Merge(first, second []corev1.Toleration) []corev1.Toleration {
	all := append(first[:len(first):len(first)], second...)
	var merged []corev1.Toleration
	for i := range all {
		if !coveredByAny(&all[i], merged) && !coveredByOther(&all[i], all[i+1:]) {
			merged = append(merged, all[i])
		}
	}
	return merged
}

func coveredByAny(t *corev1.Toleration, list []corev1.Toleration) bool {
	for i := range list {
		if covers(&list[i], t) {
			return true
		}
	}
	return false
}

// coveredByOther says that a toleration that is not equal to t covers t.
func coveredByOther(t *corev1.Toleration, list []corev1.Toleration) bool {
	for i := range list {
		if !apiequality.Semantic.DeepEqual(t, &list[i]) && covers(&list[i], t) {
			return true
		}
	}
	return false
}

// Within says that each toleration is covered by an allowed one. An empty list
// allows everything.
func Within(list, allowed []corev1.Toleration) bool {
	if len(allowed) == 0 {
		return true
	}
	for i := range list {
		if !coveredByAny(&list[i], allowed) {
			return false
		}
	}
	return true
}

// covers says that wide tolerates all that t does.
func covers(wide, t *corev1.Toleration) bool {
	if apiequality.Semantic.DeepEqual(wide, t) {
		return true
	}
	if t.Key != wide.Key && (wide.Key != "" || wide.Operator != corev1.TolerationOpExists) {
		return false
	}
	if t.Effect != wide.Effect && wide.Effect != "" {
		return false
	}
	if s := wide.TolerationSeconds; wide.Effect == corev1.TaintEffectNoExecute && s != nil {
		if t.TolerationSeconds == nil || *t.TolerationSeconds > *s {
			return false
		}
	}
	switch wide.Operator {
	case corev1.TolerationOpEqual, "":
		return t.Operator == corev1.TolerationOpEqual && t.Value == wide.Value
	case corev1.TolerationOpExists:
		return true
	}
	return false
}
