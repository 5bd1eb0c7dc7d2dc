package resourcequota

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// resourceClaims measures devices, by class and by the extended resource that
// a class stands for.
func (p *plugin) resourceClaims() *meter {
	return &meter{
		handles: itself,
		measures: func(name corev1.ResourceName) bool {
			return name == countName(admission.ResourceClaims) || strings.HasSuffix(string(name), corev1.ResourceClaimsPerClass) ||
				isExtendedRequest(name)
		},
		usage: func(ctx context.Context, obj runtime.Object) (corev1.ResourceList, error) {
			claim, ok := obj.(*resourcev1.ResourceClaim)
			if !ok {
				return nil, fmt.Errorf("%T is not a resource claim", obj)
			}
			devices := devicesOf(claim)
			list := corev1.ResourceList{countName(admission.ResourceClaims): one()}
			for class, n := range devices {
				list[corev1.ResourceName(class+corev1.ResourceClaimsPerClass)] = count(n)
			}
			extended, err := p.extended(ctx, devices)
			if err != nil || len(extended) == 0 {
				return list, err
			}
			// Devices that were charged to the claim's pod are not charged
			// again.
			paid, err := p.paidByPod(ctx, claim)
			if err != nil {
				return nil, err
			}
			for name, q := range extended {
				q.Sub(paid[name])
				if q.Sign() > 0 {
					list[name] = q
				}
			}
			return list, nil
		},
	}
}

// devicesOf counts the devices that a claim may get, by class; of alternatives
// the largest counts.
func devicesOf(claim *resourcev1.ResourceClaim) map[string]int64 {
	number := func(mode resourcev1.DeviceAllocationMode, n int64) int64 {
		switch mode {
		case resourcev1.DeviceAllocationModeExactCount:
			return n
		case resourcev1.DeviceAllocationModeAll:
			return resourcev1.AllocationResultsMaxSize
		}
		return 0
	}
	devices := map[string]int64{}
	for _, r := range claim.Spec.Devices.Requests {
		if len(r.FirstAvailable) > 0 {
			most := map[string]int64{}
			for _, s := range r.FirstAvailable {
				most[s.DeviceClassName] = max(most[s.DeviceClassName], number(s.AllocationMode, s.Count))
			}
			for class, n := range most {
				devices[class] += n
			}
		} else if e := r.Exactly; e != nil {
			devices[e.DeviceClassName] += number(e.AllocationMode, e.Count)
		}
	}
	return devices
}

// extended returns devices as requests of the extended resources that stand for
// them.
func (p *plugin) extended(ctx context.Context, devices map[string]int64) (corev1.ResourceList, error) {
	list := corev1.ResourceList{}
	if len(devices) == 0 {
		return list, nil
	}
	classes, err := admission.SeenList[*resourcev1.DeviceClass](ctx, p.objects, admission.DeviceClasses, "")
	if err != nil {
		return nil, err
	}
	for _, c := range classes {
		if n, ok := devices[c.Name]; ok && c.Spec.ExtendedResourceName != nil && *c.Spec.ExtendedResourceName != "" {
			list[corev1.ResourceName(corev1.ResourceImplicitExtendedClaimsPerClass+c.Name)] = count(n)
			list[corev1.ResourceName(requestsPrefix+*c.Spec.ExtendedResourceName)] = count(n)
		}
	}
	return list, nil
}

// paidByPod returns the charge of a claim's pod, if the scheduler made the
// claim for the pod's extended resources. If several claims say so, only the
// one that the pod names, or the oldest, counts.
func (p *plugin) paidByPod(ctx context.Context, claim *resourcev1.ResourceClaim) (corev1.ResourceList, error) {
	owner := podOf(claim)
	if owner == nil {
		return nil, nil
	}
	pod, err := admission.Seen[*corev1.Pod](ctx, p.objects, admission.Pods, claim.Namespace, owner.Name)
	if err != nil || pod.UID != owner.UID {
		return nil, ignoreGone(err)
	}
	if s := pod.Status.ExtendedResourceClaimStatus; s != nil {
		if s.ResourceClaimName != claim.Name {
			return nil, nil
		}
		return p.podUsage(pod), nil
	}
	others, err := admission.SeenList[*resourcev1.ResourceClaim](ctx, p.objects, admission.ResourceClaims, claim.Namespace)
	if err != nil {
		return nil, err
	}
	for _, other := range others {
		o := podOf(other)
		if o == nil || o.UID != pod.UID {
			continue
		}
		older := other.CreationTimestamp.Compare(claim.CreationTimestamp.Time)
		if older < 0 || older == 0 && other.Name < claim.Name {
			return nil, nil
		}
	}
	return p.podUsage(pod), nil
}

// podOf returns the pod for whose extended resources a claim was made, or nil.
func podOf(claim *resourcev1.ResourceClaim) *metav1.OwnerReference {
	if claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "true" {
		return nil
	}
	owner := metav1.GetControllerOfNoCopy(claim)
	if owner == nil || owner.Kind != "Pod" || owner.APIVersion != "v1" {
		return nil
	}
	return owner
}
