package resourcequota

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// Counter counts usage in the same way as the plugin charges it.
type Counter struct{ plugin *plugin }

// NewCounter makes a Counter that looks things up in objects.
func NewCounter(objects admission.Objects, clock clock.PassiveClock) *Counter {
	return &Counter{&plugin{objects: objects, clock: clock}}
}

// Stored gives the objects of one resource in a namespace.
type Stored struct {
	Resource schema.GroupResource
	// Len returns the number of objects.
	Len func() (int64, error)
	// Each calls f with each object until it returns an error.
	Each func(f func(obj runtime.Object) error) error
}

// Metered says whether quotas can limit objects of a resource.
func Metered(gr schema.GroupResource) bool { return !unmetered.Has(gr) }

// Measures says whether objects of a resource can use any resource in hard.
func (c *Counter) Measures(gr schema.GroupResource, hard corev1.ResourceList) bool {
	m := c.plugin.meter(gr)
	for name := range hard {
		if m.measures(name) {
			return true
		}
	}
	return false
}

// Status returns the status that a quota must have, given all stored objects of
// the resources that it limits. Usage that cannot be counted stays as it is;
// the error says why.
func (c *Counter) Status(ctx context.Context, q *corev1.ResourceQuota, all []Stored) (corev1.ResourceQuotaStatus, error) {
	used := corev1.ResourceList{}
	failed := corev1.ResourceList{}
	var errs []error
	for _, s := range all {
		m := c.plugin.meter(s.Resource)
		measured := corev1.ResourceList{}
		for name := range q.Spec.Hard {
			if m.measures(name) {
				measured[name] = count(0)
			}
		}
		if len(measured) == 0 {
			continue
		}
		n, err := c.tally(ctx, m, q, s)
		if err != nil {
			errs = append(errs, err)
			maps.Copy(failed, measured)
			continue
		}
		used = sum(used, sum(measured, mask(n, measured)))
	}
	status := corev1.ResourceQuotaStatus{Hard: q.Spec.Hard.DeepCopy(), Used: mask(q.Status.Used.DeepCopy(), q.Spec.Hard)}
	for name, n := range used {
		if _, no := failed[name]; !no {
			status.Used[name] = n
		}
	}
	return status, errors.Join(errs...)
}

// tally adds up the usage of the objects that are in all scopes of a quota.
func (c *Counter) tally(ctx context.Context, m *meter, q *corev1.ResourceQuota, s Stored) (corev1.ResourceList, error) {
	total := corev1.ResourceList{}
	scopes := selectors(q)
	if m.inScope == nil && len(scopes) > 0 {
		return total, nil
	}
	if m.each != nil {
		n, err := s.Len()
		if err != nil {
			return nil, err
		}
		for name := range m.each {
			total[name] = count(n)
		}
		return total, nil
	}
	of := &charge{meter: m}
	err := s.Each(func(obj runtime.Object) error {
		in, err := of.scopesOf(obj, scopes)
		if err != nil || len(in) != len(scopes) {
			return err
		}
		uses, err := m.usage(ctx, obj)
		if err != nil {
			return err
		}
		for name, n := range uses {
			have := total[name]
			have.Add(n)
			total[name] = have
		}
		return nil
	})
	return total, err
}

// UpToDate says that the status of a quota is as it must be.
func UpToDate(q *corev1.ResourceQuota, status corev1.ResourceQuotaStatus) bool {
	return q.Status.Hard != nil && q.Status.Used != nil &&
		equality.Semantic.DeepEqual(q.Status.Hard, status.Hard) && equality.Semantic.DeepEqual(q.Status.Used, status.Used)
}

// Changes says whether an update of an object can change usage without a
// charge: the object uses less, or changes scopes. Again is the time after
// which the usage may change without an update; 0: never.
func (c *Counter) Changes(ctx context.Context, gr schema.GroupResource, old, now runtime.Object) (changed bool, again time.Duration) {
	m := c.plugin.meter(gr)
	if m.each != nil {
		return false, 0
	}
	before, err := m.usage(ctx, old)
	if err != nil {
		return true, 0
	}
	after, err := m.usage(ctx, now)
	if err != nil {
		return true, 0
	}
	if pod, ok := now.(*corev1.Pod); ok {
		again = c.untilEnded(pod)
	}
	return !equality.Semantic.DeepEqual(before, after) || !slices.Equal(scopes(old), scopes(now)), again
}

// untilEnded returns the remaining time of a pod that is being deleted; 0: it
// is not being deleted.
func (c *Counter) untilEnded(pod *corev1.Pod) time.Duration {
	if pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return 0
	}
	end := pod.DeletionTimestamp.Add(time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
	return max(0, end.Sub(c.plugin.clock.Now())+time.Second)
}

// scopes returns the mutable properties of an object that determine its scopes.
func scopes(obj runtime.Object) []string {
	switch o := obj.(type) {
	case *corev1.Pod:
		if hasDeadline(o) {
			return []string{"deadline"}
		}
	case *corev1.PersistentVolumeClaim:
		return slices.Sorted(maps.Keys(attributesClasses(o)))
	}
	return nil
}
