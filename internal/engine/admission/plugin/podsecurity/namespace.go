package podsecurity

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/pod-security-admission/api"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Bounds of checking the existing pods of a namespace against its new policy.
const (
	maxPodsChecked = 3000
	maxCheckTime   = time.Second
)

// validateNamespace refuses invalid labels, and warns of existing pods that a
// stricter policy would refuse.
func (p *plugin) validateNamespace(ctx context.Context, a *admission.Attributes) error {
	if a.Subresource != "" {
		return nil
	}
	ns, ok := a.Object.(*corev1.Namespace)
	if !ok {
		return admission.WrongType(a)
	}
	wanted, errs := api.PolicyToEvaluate(ns.Labels, p.defaults)
	invalid := func() error { return apierrors.NewInvalid(a.Kind.GroupKind(), a.Name, errs) }
	if a.Operation == admission.Create {
		if len(errs) > 0 {
			return invalid()
		}
		p.warnExempt(ctx, ns, wanted)
		return nil
	}
	old, ok := a.OldObject.(*corev1.Namespace)
	if !ok {
		return admission.WrongType(a)
	}
	had, oldErrs := api.PolicyToEvaluate(old.Labels, p.defaults)
	if len(errs) > 0 && !reflect.DeepEqual(errs, oldErrs) {
		return invalid()
	}
	switch {
	case wanted.Enforce == had.Enforce, wanted.Enforce.Level == api.LevelPrivileged,
		wanted.Enforce.Version == had.Enforce.Version && api.CompareLevels(wanted.Enforce.Level, had.Enforce.Level) < 1:
	case slices.Contains(p.Exemptions.Namespaces, ns.Name):
		p.warnExempt(ctx, ns, wanted)
	default:
		p.warnOfPods(ctx, ns.Name, wanted.Enforce)
	}
	return nil
}

// warnExempt warns that the labels of an exempt namespace have no effect.
func (p *plugin) warnExempt(ctx context.Context, ns *corev1.Namespace, wanted api.Policy) {
	if !slices.Contains(p.Exemptions.Namespaces, ns.Name) || wanted.FullyPrivileged() || wanted.Equivalent(&p.defaults) {
		return
	}
	var modes []string
	for _, m := range []struct {
		name, level, version string
		lv                   api.LevelVersion
	}{
		{"enforce", api.EnforceLevelLabel, api.EnforceVersionLabel, wanted.Enforce},
		{"audit", api.AuditLevelLabel, api.AuditVersionLabel, wanted.Audit},
		{"warn", api.WarnLevelLabel, api.WarnVersionLabel, wanted.Warn},
	} {
		_, level := ns.Labels[m.level]
		_, version := ns.Labels[m.version]
		if m.lv.Level != api.LevelPrivileged && (level || version) {
			modes = append(modes, m.name+"="+m.lv.String())
		}
	}
	request.AddWarning(ctx, fmt.Sprintf("namespace %q is exempt from Pod Security, and the policy (%s) will be ignored", ns.Name, strings.Join(modes, ", ")))
}

// warnOfPods warns of the pods in a namespace that its new policy would refuse,
// once for all pods with the same violations.
func (p *plugin) warnOfPods(ctx context.Context, namespace string, lv api.LevelVersion) {
	limit := maxCheckTime
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end)/2)
	}
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	pods, err := admission.SeenList[*corev1.Pod](within, p.objects, admission.Pods, namespace)
	if err != nil {
		request.AddWarning(ctx, "failed to list pods while checking new PodSecurity enforce level")
		return
	}
	pods = p.varied(pods)
	checked := 0
	faults := map[string][]string{}
	for _, pod := range pods[:min(len(pods), maxPodsChecked)] {
		if r := p.judge(lv, &pod.ObjectMeta, &pod.Spec); !r.Allowed {
			faults[r.ForbiddenReason()] = append(faults[r.ForbiddenReason()], pod.Name)
		}
		checked++
		if within.Err() != nil {
			break
		}
	}
	if checked < len(pods) {
		request.AddWarning(ctx, fmt.Sprintf("new PodSecurity enforce level only checked against the first %d of %d existing pods", checked, len(pods)))
	}
	if len(faults) == 0 {
		return
	}
	request.AddWarning(ctx, fmt.Sprintf("existing pods in namespace %q violate the new PodSecurity enforce level %q", namespace, lv.String()))
	var warnings []string
	for fault, names := range faults {
		others := ""
		switch n := len(names) - 1; n {
		case 0:
		case 1:
			others = " (and 1 other pod)"
		default:
			others = fmt.Sprintf(" (and %d other pods)", n)
		}
		warnings = append(warnings, fmt.Sprintf("%s%s: %s", slices.Min(names), others, fault))
	}
	slices.Sort(warnings)
	for _, w := range warnings {
		request.AddWarning(ctx, w)
	}
}

// varied puts one pod of each controller first: the others are most likely
// like it. Pods of exempt runtime classes are left out.
func (p *plugin) varied(pods []*corev1.Pod) []*corev1.Pod {
	var first, rest []*corev1.Pod
	seen := map[types.UID]bool{}
	for _, pod := range pods {
		if p.exemptsClass(&pod.Spec) {
			continue
		}
		owner := metav1.GetControllerOfNoCopy(pod)
		switch {
		case owner == nil:
			first = append(first, pod)
		case seen[owner.UID]:
			rest = append(rest, pod)
		default:
			seen[owner.UID] = true
			first = append(first, pod)
		}
	}
	return append(first, rest...)
}
