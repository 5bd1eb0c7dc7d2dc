package limitranger

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/podresources"
)

// amounts are the requests and limits of an object, under one type of limit.
type amounts struct {
	kind             corev1.LimitType
	requests, limits corev1.ResourceList
}

type pod struct{ *corev1.Pod }

// amounts returns a pod's amounts under a type of limit.
func (p pod) amounts(kind corev1.LimitType) []amounts {
	switch kind {
	case corev1.LimitTypeContainer:
		var out []amounts
		for _, c := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
			out = append(out, amounts{kind, c.Resources.Requests, c.Resources.Limits})
		}
		return out
	case corev1.LimitTypePod:
		o := podresources.Options{NoOverhead: true, NoHugePages: true}
		return []amounts{{kind, podresources.Requests(p.Pod, o), podresources.Limits(p.Pod, o)}}
	}
	return nil
}

func checkPod(p pod, r *corev1.LimitRange) (errs []error) {
	for _, l := range r.Spec.Limits {
		for _, a := range p.amounts(l.Type) {
			errs = append(errs, each(l.Min, a.min)...)
			errs = append(errs, each(l.Max, a.max)...)
			errs = append(errs, each(l.MaxLimitRequestRatio, a.ratio)...)
		}
	}
	return errs
}

// checkClaim checks only requests: limits of a claim have no effect.
func checkClaim(c *corev1.PersistentVolumeClaim, r *corev1.LimitRange) (errs []error) {
	a := amounts{kind: corev1.LimitTypePersistentVolumeClaim, requests: c.Spec.Resources.Requests}
	for _, l := range r.Spec.Limits {
		if l.Type == a.kind {
			errs = append(errs, each(l.Min, a.min)...)
			errs = append(errs, each(l.Max, a.maxRequest)...)
		}
	}
	return errs
}

// each applies a rule to every bound, in the order of names.
func each(bounds corev1.ResourceList, rule func(name corev1.ResourceName, bound resource.Quantity) error) (errs []error) {
	for _, name := range slices.Sorted(maps.Keys(bounds)) {
		if err := rule(name, bounds[name]); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

func (a amounts) min(name corev1.ResourceName, bound resource.Quantity) error {
	request, requested := a.requests[name]
	limit, isLimited := a.limits[name]
	v := values(request, limit, bound)
	begin := fmt.Sprintf("minimum %s usage per %s is %s", name, a.kind, bound.String())
	switch {
	case !requested:
		return fmt.Errorf("%s.  No request is specified", begin)
	case v[0] < v[2]:
		return fmt.Errorf("%s, but request is %s", begin, request.String())
	case isLimited && v[1] < v[2]:
		return fmt.Errorf("%s, but limit is %s", begin, limit.String())
	}
	return nil
}

func (a amounts) max(name corev1.ResourceName, bound resource.Quantity) error {
	request, requested := a.requests[name]
	limit, isLimited := a.limits[name]
	v := values(request, limit, bound)
	begin := fmt.Sprintf("maximum %s usage per %s is %s", name, a.kind, bound.String())
	switch {
	case !isLimited:
		return fmt.Errorf("%s.  No limit is specified", begin)
	case v[1] > v[2]:
		return fmt.Errorf("%s, but limit is %s", begin, limit.String())
	case requested && v[0] > v[2]:
		return fmt.Errorf("%s, but request is %s", begin, request.String())
	}
	return nil
}

func (a amounts) maxRequest(name corev1.ResourceName, bound resource.Quantity) error {
	request, requested := a.requests[name]
	v := values(request, bound)
	begin := fmt.Sprintf("maximum %s usage per %s is %s", name, a.kind, bound.String())
	switch {
	case !requested:
		return fmt.Errorf("%s.  No request is specified", begin)
	case v[0] > v[1]:
		return fmt.Errorf("%s, but request is %s", begin, request.String())
	}
	return nil
}

func (a amounts) ratio(name corev1.ResourceName, bound resource.Quantity) error {
	request, requested := a.requests[name]
	limit, isLimited := a.limits[name]
	v := values(request, limit, bound)
	begin := fmt.Sprintf("%s max limit to request ratio per %s is %s", name, a.kind, bound.String())
	switch {
	case !requested || v[0] == 0:
		return fmt.Errorf("%s, but no request is specified or request is 0", begin)
	case !isLimited || v[1] == 0:
		return fmt.Errorf("%s, but no limit is specified or limit is 0", begin)
	}
	got := float64(v[1]) / float64(v[0])
	over := got > float64(bound.Value())
	if bound.Value() <= resource.MaxMilliValue {
		over = got*1000 > float64(bound.MilliValue())
	}
	if over {
		return fmt.Errorf("%s, but provided ratio is %f", begin, got)
	}
	return nil
}
