package resourcequota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// charge is one write with its usage.
type charge struct {
	*meter
	a       *admission.Attributes
	limited []limitedResource

	measured bool
	usage    corev1.ResourceList // of the object
	before   corev1.ResourceList // of the old object; nil: there was none

	// since is the revision of the first quota that was charged; 0: none was.
	since int64
	// err is the result once the charge is decided.
	err error
}

// measure computes the usage of the write.
func (c *charge) measure(ctx context.Context) (err error) {
	if c.measured {
		return nil
	}
	if c.usage, err = c.meter.usage(ctx, c.a.Object); err != nil {
		return err
	}
	if less := negative(c.usage); len(less) > 0 {
		return admission.Forbiddenf(c.a, "quota usage is negative for resource(s): %s", joinNames(less))
	}
	if c.a.Operation == admission.Update {
		if c.a.OldObject == nil {
			return admission.Forbiddenf(c.a, "unable to get previous usage since prior version of object was not found")
		}
		if c.before, err = c.meter.usage(ctx, c.a.OldObject); err != nil {
			return err
		}
	}
	c.measured = true
	return nil
}

// to returns what the write adds to each of the quotas, by their index; quotas
// to which it adds nothing are left out. An error refuses the write.
func (c *charge) to(ctx context.Context, quotas []*corev1.ResourceQuota) (map[int]corev1.ResourceList, error) {
	deltas := map[int]corev1.ResourceList{}
	covered := sets.New[corev1.ResourceName]()
	var coveredScopes []corev1.ScopedResourceSelectorRequirement
	applied := false
	for i, q := range quotas {
		scopes, err := c.scopesOf(c.a.Object, selectors(q))
		if err != nil {
			return nil, fmt.Errorf("match scopes of quota %s: %w", q.Name, err)
		}
		coveredScopes = append(coveredScopes, scopes...)
		delta, err := c.toOne(ctx, q)
		if err != nil {
			return nil, err
		}
		if delta == nil {
			continue
		}
		applied = true
		covered.Insert(c.measures(q)...)
		if len(delta) > 0 {
			deltas[i] = delta
		}
	}
	if err := c.measure(ctx); err != nil {
		return nil, err
	}
	if applied && len(deltas) == 0 || !applied && len(nonzero(excess(c.usage, c.before))) == 0 {
		return nil, nil
	}
	if err := c.checkCovered(covered, coveredScopes); err != nil {
		return nil, err
	}
	for i, delta := range deltas {
		delta = mask(delta, quotas[i].Status.Hard)
		if err := c.fits(quotas[i], delta); err != nil {
			return nil, err
		}
		deltas[i] = delta
		if len(delta) == 0 {
			delete(deltas, i)
		}
	}
	return deltas, nil
}

// toOne returns what the write adds to the usage of a quota: nil if the write
// does not fall under the quota, empty if it adds nothing.
func (c *charge) toOne(ctx context.Context, q *corev1.ResourceQuota) (corev1.ResourceList, error) {
	under, err := c.isUnder(q, c.a.Object)
	if err != nil || !under {
		return nil, err
	}
	required := c.measures(q)
	if c.meter.constraints != nil {
		if err := c.meter.constraints(required, c.a.Object); err != nil {
			return nil, admission.Forbiddenf(c.a, "failed quota: %s: %v", q.Name, err)
		}
	}
	for _, name := range required {
		if _, counted := q.Status.Used[name]; !counted {
			return nil, admission.Forbiddenf(c.a, "status unknown for quota: %s, resources: %s", q.Name, joinNames(required))
		}
	}
	if err := c.measure(ctx); err != nil {
		return nil, err
	}
	delta := c.usage
	if c.before != nil {
		was, err := c.isUnder(q, c.a.OldObject)
		if err != nil {
			return nil, err
		}
		if was {
			delta = excess(c.usage, c.before)
		}
	}
	return nonzero(delta), nil
}

// isUnder says that an object falls under a quota: the quota limits something
// that the object uses, and the object is within all of its scopes.
func (c *charge) isUnder(q *corev1.ResourceQuota, obj runtime.Object) (bool, error) {
	all := selectors(q)
	matched, err := c.scopesOf(obj, all)
	return err == nil && len(matched) == len(all) && len(c.measures(q)) > 0, err
}

// measures returns the resources that the quota limits and the meter measures.
func (c *charge) measures(q *corev1.ResourceQuota) (names []corev1.ResourceName) {
	for _, name := range slices.Sorted(maps.Keys(q.Status.Hard)) {
		if c.meter.measures(name) {
			names = append(names, name)
		}
	}
	return names
}

// scopesOf returns the selectors that select an object.
func (c *charge) scopesOf(obj runtime.Object, all []corev1.ScopedResourceSelectorRequirement) (matched []corev1.ScopedResourceSelectorRequirement, err error) {
	if c.meter.inScope == nil {
		return nil, nil
	}
	for _, s := range all {
		in, err := c.meter.inScope(obj, s)
		if err != nil {
			return nil, err
		}
		if in {
			matched = append(matched, s)
		}
	}
	return matched, nil
}

// fits checks that a quota has room for delta. Usage that the system itself writes into a
// status is counted even if there is no room.
func (c *charge) fits(q *corev1.ResourceQuota, delta corev1.ResourceList) error {
	if c.a.Subresource == "status" {
		return nil
	}
	after := sum(q.Status.Used, delta)
	over := corev1.ResourceList{}
	for name := range delta {
		have := after[name]
		if have.Cmp(q.Status.Hard[name]) > 0 {
			over[name] = delta[name]
		}
	}
	if len(over) == 0 {
		return nil
	}
	return admission.Forbiddenf(c.a, "exceeded quota: %s, requested: %s, used: %s, limited: %s",
		q.Name, join(over), join(mask(q.Status.Used, over)), join(mask(q.Status.Hard, over)))
}

// checkCovered refuses the use of resources that the configuration limits,
// unless a quota covers them.
func (c *charge) checkCovered(covered sets.Set[corev1.ResourceName], coveredScopes []corev1.ScopedResourceSelectorRequirement) error {
	missing := sets.New[corev1.ResourceName]()
	var scopes []corev1.ScopedResourceSelectorRequirement
	for _, l := range c.limited {
		limitedScopes, err := c.scopesOf(c.a.Object, l.MatchScopes)
		if err != nil {
			return nil // as in kube-apiserver, an error means that nothing is limited
		}
		for _, s := range limitedScopes {
			if !slices.ContainsFunc(coveredScopes, func(have corev1.ScopedResourceSelectorRequirement) bool { return have.ScopeName == s.ScopeName }) {
				scopes = append(scopes, s)
			}
		}
		if l.APIGroup != c.a.Resource.Group || l.Resource != c.a.Resource.Resource {
			continue
		}
		for name, q := range c.usage {
			scarce := slices.ContainsFunc(l.MatchContains, func(part string) bool { return strings.Contains(string(name), part) })
			if scarce && q.Sign() == 1 && !covered.Has(name) {
				missing.Insert(name)
			}
		}
	}
	if len(missing) > 0 {
		return admission.Forbiddenf(c.a, "insufficient quota to consume: %s", joinNames(sets.List(missing)))
	}
	if len(scopes) > 0 {
		return fmt.Errorf("insufficient quota to match these scopes: %v", scopes)
	}
	return nil
}

// selectors are the scopes of a quota, in the form of selectors.
func selectors(q *corev1.ResourceQuota) (all []corev1.ScopedResourceSelectorRequirement) {
	for _, s := range q.Spec.Scopes {
		all = append(all, corev1.ScopedResourceSelectorRequirement{ScopeName: s, Operator: corev1.ScopeSelectorOpExists})
	}
	if q.Spec.ScopeSelector != nil {
		all = append(all, q.Spec.ScopeSelector.MatchExpressions...)
	}
	return all
}

// ignoreGone ignores the error of a quota that was deleted in the meantime.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

var errTimeout = apierrors.NewInternalError(errors.New("resource quota evaluation timed out"))
