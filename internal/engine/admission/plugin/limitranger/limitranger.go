// Package limitranger enforces the limit ranges of a namespace on pods and
// claims, and sets their default requests and limits in containers.
package limitranger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// Name of the plugin in --enable-admission-plugins.
const Name = "LimitRanger"

// annotation lists the defaults that were set.
const annotation = "kubernetes.io/limit-ranger"

type plugin struct {
	objects admission.Objects
}

// New makes the plugin.
func New(objects admission.Objects) admission.Plugin {
	p := &plugin{objects}
	return admission.Plugin{
		Name: Name, Mutator: p, Validator: p,
		On: []admission.Operation{admission.Create, admission.Update},
		Of: []schema.GroupResource{admission.Pods, admission.PersistentVolumeClaims},
	}
}

// limited says that a write can change amounts that limit ranges limit. The
// resources of a pod change only when it is created or resized.
func limited(a *admission.Attributes) bool {
	if old, ok := a.OldObject.(admission.Object); ok && old.GetDeletionTimestamp() != nil {
		return false
	}
	switch a.Object.(type) {
	case *corev1.Pod:
		return a.Subresource == "" && a.Operation == admission.Create || a.Subresource == "resize" && a.Operation == admission.Update
	case *corev1.PersistentVolumeClaim:
		return a.Subresource == ""
	}
	return false
}

func (p *plugin) Admit(ctx context.Context, a *admission.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok || !limited(a) {
		return nil
	}
	ranges, err := p.ranges(ctx, a)
	for _, r := range ranges {
		setDefaults(pod, r)
	}
	return err
}

func (p *plugin) Validate(ctx context.Context, a *admission.Attributes) error {
	if !limited(a) {
		return nil
	}
	ranges, err := p.ranges(ctx, a)
	if err != nil {
		return err
	}
	for _, r := range ranges {
		var errs []error
		switch obj := a.Object.(type) {
		case *corev1.Pod:
			errs = checkPod(pod{obj}, r)
		case *corev1.PersistentVolumeClaim:
			errs = checkClaim(obj, r)
		}
		if len(errs) > 0 {
			return admission.Forbidden(a, utilerrors.NewAggregate(errs))
		}
	}
	return nil
}

func (p *plugin) ranges(ctx context.Context, a *admission.Attributes) ([]*corev1.LimitRange, error) {
	ranges, err := admission.SeenList[*corev1.LimitRange](ctx, p.objects, admission.LimitRanges, a.Namespace)
	if err != nil {
		return nil, admission.Forbidden(a, fmt.Errorf("read limit ranges: %w", err))
	}
	return ranges, nil
}

// setDefaults sets a limit range's defaults in containers that leave them out.
func setDefaults(pod *corev1.Pod, r *corev1.LimitRange) {
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	for _, l := range r.Spec.Limits {
		if l.Type == corev1.LimitTypeContainer {
			maps.Copy(requests, l.DefaultRequest)
			maps.Copy(limits, l.Default)
		}
	}
	var done []string
	each := func(what string, c *corev1.Container) {
		for _, d := range []struct {
			what string
			into *corev1.ResourceList
			from corev1.ResourceList
		}{{"request", &c.Resources.Requests, requests}, {"limit", &c.Resources.Limits, limits}} {
			if set := fill(d.into, d.from); len(set) > 0 {
				done = append(done, fmt.Sprintf("%s %s for %s %s", strings.Join(set, ", "), d.what, what, c.Name))
			}
		}
	}
	for i := range pod.Spec.Containers {
		each("container", &pod.Spec.Containers[i])
	}
	for i := range pod.Spec.InitContainers {
		each("init container", &pod.Spec.InitContainers[i])
	}
	if len(done) > 0 {
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[annotation] = "LimitRanger plugin set: " + strings.Join(done, "; ")
	}
}

// fill adds what is missing and returns its names, sorted.
func fill(into *corev1.ResourceList, from corev1.ResourceList) (set []string) {
	for _, name := range slices.Sorted(maps.Keys(from)) {
		if _, ok := (*into)[name]; ok {
			continue
		}
		if *into == nil {
			*into = corev1.ResourceList{}
		}
		q := from[name]
		(*into)[name] = q.DeepCopy()
		set = append(set, string(name))
	}
	return set
}

// values returns amounts as integers of one scale: milli-units if none
// overflows.
func values(qs ...resource.Quantity) []int64 {
	out := make([]int64, len(qs))
	fine := true
	for i := range qs {
		out[i] = qs[i].Value()
		fine = fine && out[i] <= resource.MaxMilliValue
	}
	if fine {
		for i := range qs {
			out[i] = qs[i].MilliValue()
		}
	}
	return out
}
