package resourcequota

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/podresources"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/podspec"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

const requestsPrefix = corev1.DefaultResourceRequestsPrefix

// mustState are the resources that containers must specify if a quota limits
// them.
var mustState = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceMemory,
	corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
	corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
}

func (p *plugin) pods() *meter {
	return &meter{
		handles:     podHandles,
		measures:    measuresOfPod,
		constraints: podConstraints,
		inScope:     podInScope,
		usage: func(_ context.Context, obj runtime.Object) (corev1.ResourceList, error) {
			pod, ok := obj.(*corev1.Pod)
			if !ok {
				return nil, fmt.Errorf("%T is not a pod", obj)
			}
			return p.podUsage(pod), nil
		},
	}
}

// podHandles says that a write can change a pod's usage: its creation, a
// resize, or a new deadline, which moves it to other scopes.
func podHandles(a *admission.Attributes) bool {
	switch {
	case a.Subresource == "resize":
		return a.Operation == admission.Update
	case a.Subresource != "":
		return false
	case a.Operation == admission.Create:
		return true
	}
	pod, ok := a.Object.(*corev1.Pod)
	old, okOld := a.OldObject.(*corev1.Pod)
	return ok && okOld && hasDeadline(pod) != hasDeadline(old)
}

func measuresOfPod(name corev1.ResourceName) bool {
	switch name {
	case countName(admission.Pods), corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
		corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsEphemeralStorage,
		corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage:
		return true
	}
	return rules.IsHugePages(name) || strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix) || isExtendedRequest(name)
}

// isExtendedRequest says that a quota's resource is a request of an extended
// resource or of devices of a class.
func isExtendedRequest(name corev1.ResourceName) bool {
	of, ok := strings.CutPrefix(string(name), requestsPrefix)
	return ok && (!rules.IsNative(name) || strings.HasPrefix(of, resourcev1.ResourceDeviceClassPrefix))
}

func podConstraints(required []corev1.ResourceName, obj runtime.Object) error {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("%T is not a pod", obj)
	}
	if podresources.ForWholePod(pod) {
		return nil
	}
	var missing []string
	containers := slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers)
	for _, name := range required {
		if !slices.Contains(mustState, name) {
			continue
		}
		var without []string
		for i := range containers {
			r := &containers[i].Resources
			if _, ok := computed(r.Requests, r.Limits)[name]; !ok {
				without = append(without, containers[i].Name)
			}
		}
		if len(without) > 0 {
			slices.Sort(without)
			missing = append(missing, fmt.Sprintf("%s for: %s", name, strings.Join(without, ",")))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("must specify %s", strings.Join(missing, "; "))
}

// podUsage returns the usage of a pod. Every pod counts as an object, but only
// one that has not ended uses resources.
func (p *plugin) podUsage(pod *corev1.Pod) corev1.ResourceList {
	list := corev1.ResourceList{countName(admission.Pods): one()}
	if p.hasEnded(pod) {
		return list
	}
	o := podresources.Options{Status: true}
	maps.Copy(list, computed(podresources.Requests(pod, o), podresources.Limits(pod, o)))
	return list
}

// hasEnded says that a pod has ended, or should have: a pod on a lost node must
// not use quota forever.
func (p *plugin) hasEnded(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return true
	}
	if pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return false
	}
	grace := time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
	return p.clock.Now().After(pod.DeletionTimestamp.Add(grace))
}

// computed returns requests and limits under the names that quotas use.
func computed(requests, limits corev1.ResourceList) corev1.ResourceList {
	list := corev1.ResourceList{corev1.ResourcePods: one()}
	for name, q := range requests {
		switch {
		case name == corev1.ResourceCPU, name == corev1.ResourceMemory, name == corev1.ResourceEphemeralStorage, rules.IsHugePages(name):
			list[name] = q
			list[requestsPrefix+name] = q
		case rules.IsExtended(name), strings.HasPrefix(string(name), resourcev1.ResourceDeviceClassPrefix):
			list[requestsPrefix+name] = q
		}
	}
	for _, name := range [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if q, ok := limits[name]; ok {
			list["limits."+name] = q
		}
	}
	return list
}

func hasDeadline(pod *corev1.Pod) bool {
	return pod.Spec.ActiveDeadlineSeconds != nil && *pod.Spec.ActiveDeadlineSeconds >= 0
}

func podInScope(obj runtime.Object, s corev1.ScopedResourceSelectorRequirement) (bool, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return false, fmt.Errorf("%T is not a pod", obj)
	}
	switch s.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return hasDeadline(pod), nil
	case corev1.ResourceQuotaScopeNotTerminating:
		return !hasDeadline(pod), nil
	case corev1.ResourceQuotaScopeBestEffort:
		return isBestEffort(pod), nil
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !isBestEffort(pod), nil
	case corev1.ResourceQuotaScopePriorityClass:
		return selects(s, pod.Spec.PriorityClassName)
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return hasAffinityAcross(pod), nil
	}
	return false, nil
}

func isBestEffort(pod *corev1.Pod) bool {
	class := pod.Status.QOSClass
	if class == "" {
		class = podspec.QOSClass(&pod.Spec, features.Set{})
	}
	return class == corev1.PodQOSBestEffort
}

// hasAffinityAcross says that a pod has an affinity to pods of other
// namespaces.
func hasAffinityAcross(pod *corev1.Pod) bool {
	if pod.Spec.Affinity == nil {
		return false
	}
	var terms []corev1.PodAffinityTerm
	var weighted []corev1.WeightedPodAffinityTerm
	if a := pod.Spec.Affinity.PodAffinity; a != nil {
		terms = append(terms, a.RequiredDuringSchedulingIgnoredDuringExecution...)
		weighted = append(weighted, a.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	if a := pod.Spec.Affinity.PodAntiAffinity; a != nil {
		terms = append(terms, a.RequiredDuringSchedulingIgnoredDuringExecution...)
		weighted = append(weighted, a.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	for _, w := range weighted {
		terms = append(terms, w.PodAffinityTerm)
	}
	return slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool {
		return len(t.Namespaces) > 0 || t.NamespaceSelector != nil
	})
}
