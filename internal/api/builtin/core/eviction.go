package core

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/request"
)

var disruptionBudgets = schema.GroupResource{Group: policyv1.GroupName, Resource: "poddisruptionbudgets"}

// evictPod returns the func that deletes a pod if its disruption budget allows it.
func evictPod(d Deps) func(context.Context, string, engine.Object, engine.Check, *metav1.CreateOptions) (runtime.Object, error) {
	return func(ctx context.Context, name string, body engine.Object, check engine.Check, options *metav1.CreateOptions) (runtime.Object, error) {
		ev, ok := body.(*policyv1.Eviction)
		if !ok {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("an eviction is needed, not %T", body))
		}
		e := &eviction{Deps: d, namespace: namespaceOf(ctx, ev), name: name}
		if err := e.setOptions(ev, options); err != nil {
			return nil, err
		}
		if err := check(ctx, ev); err != nil {
			return nil, err
		}
		return e.run(ctx)
	}
}

type eviction struct {
	Deps
	namespace, name string
	options         *metav1.DeleteOptions
}

// setOptions combines the dry run of the request with that of the deletion.
func (e *eviction) setOptions(ev *policyv1.Eviction, options *metav1.CreateOptions) error {
	if ev.Name != e.name {
		return apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	e.options = &metav1.DeleteOptions{}
	if ev.DeleteOptions != nil {
		e.options = ev.DeleteOptions.DeepCopy()
	}
	if isTrue(e.options.IgnoreStoreReadErrorWithClusterBreakingPotential) {
		at := field.NewPath("deleteOptions", "ignoreStoreReadErrorWithClusterBreakingPotential")
		return apierrors.NewInvalid(policyv1.SchemeGroupVersion.WithKind("Eviction").GroupKind(), e.name,
			field.ErrorList{field.Invalid(at, true, "not for evictions")})
	}
	switch {
	case len(e.options.DryRun) == 0:
		e.options.DryRun = options.DryRun
		if ev.DeleteOptions != nil { // this is what admission sees
			ev.DeleteOptions.DryRun = options.DryRun
		}
	case len(options.DryRun) > 0 && !slices.Equal(options.DryRun, e.options.DryRun):
		//lint:ignore ST1005 kube-apiserver says it so
		return fmt.Errorf("Non-matching dry-run options in request and content: %v and %v", options.DryRun, e.options.DryRun)
	}
	return nil
}

func (e *eviction) run(ctx context.Context) (runtime.Object, error) {
	obj, err := e.Objects.Get(ctx, corev1.Resource("pods"), e.namespace, e.name)
	if err != nil {
		return nil, err
	}
	p := obj.(*corev1.Pod)
	if countsForNobody(p) {
		// Only if it does not change: a pending pod may start to run meanwhile.
		pinned := p.Status.Phase == corev1.PodPending && p.DeletionTimestamp == nil
		return e.delete(ctx, p, pinned)
	}
	budgets, err := e.budgetsOf(ctx, p)
	if err != nil {
		return nil, err
	}
	switch len(budgets) {
	case 0:
		return e.delete(ctx, p, false)
	case 1:
	default:
		return &metav1.Status{
			Status: metav1.StatusFailure, Code: 500,
			Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
		}, nil
	}
	if mayGoUnready(p, budgets[0]) {
		out, err := e.delete(ctx, p, true)
		if apierrors.IsConflict(err) && !hasRevision(e.options) {
			return nil, stillProcessed(budgets[0])
		}
		return out, err
	}
	if err := e.spend(ctx, budgets[0]); err != nil {
		return nil, err
	}
	return e.delete(ctx, p, false)
}

// countsForNobody reports whether a pod does not run, so that no budget counts it.
func countsForNobody(p *corev1.Pod) bool {
	switch p.Status.Phase {
	case corev1.PodSucceeded, corev1.PodFailed, corev1.PodPending:
		return true
	}
	return p.DeletionTimestamp != nil
}

// mayGoUnready reports whether a pod is not ready and may be evicted without using the budget.
func mayGoUnready(p *corev1.Pod, b *policyv1.PodDisruptionBudget) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return false
		}
	}
	if policy := b.Spec.UnhealthyPodEvictionPolicy; policy != nil && *policy == policyv1.AlwaysAllow {
		return true
	}
	return b.Status.DesiredHealthy > 0 && b.Status.CurrentHealthy >= b.Status.DesiredHealthy
}

func (e *eviction) budgetsOf(ctx context.Context, p *corev1.Pod) ([]*policyv1.PodDisruptionBudget, error) {
	all, err := e.Objects.List(ctx, disruptionBudgets, p.Namespace)
	if err != nil {
		return nil, err
	}
	var out []*policyv1.PodDisruptionBudget
	for _, obj := range all {
		b := obj.(*policyv1.PodDisruptionBudget)
		if s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil && s.Matches(labels.Set(p.Labels)) {
			out = append(out, b)
		}
	}
	return out, nil
}

// spend takes one disruption from a budget.
func (e *eviction) spend(ctx context.Context, b *policyv1.PodDisruptionBudget) error {
	_, err := e.Objects.Update(ctx, disruptionBudgets, request.Same(b), isDryRun(e.options.DryRun), func(obj engine.Object) error {
		b := obj.(*policyv1.PodDisruptionBudget)
		if err := checkBudget(b); err != nil {
			return err
		}
		s := &b.Status
		s.DisruptionsAllowed--
		if s.DisruptionsAllowed == 0 {
			meta.SetStatusCondition(&s.Conditions, metav1.Condition{
				Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse,
				Reason: policyv1.InsufficientPodsReason, ObservedGeneration: s.ObservedGeneration,
				LastTransitionTime: metav1.Time{Time: e.Now()},
			})
		}
		if s.DisruptedPods == nil {
			s.DisruptedPods = map[string]metav1.Time{}
		}
		s.DisruptedPods[e.name] = metav1.Time{Time: e.Now()}
		return nil
	})
	if apierrors.IsConflict(err) {
		return stillProcessed(b) // another budget has its name, which may not concern the pod
	}
	return err
}

func checkBudget(b *policyv1.PodDisruptionBudget) error {
	const mostUnconfirmed = 2000
	s := &b.Status
	forbidden := func(why string) error {
		return apierrors.NewForbidden(schema.GroupResource{Group: policyv1.GroupName, Resource: "poddisruptionbudget"}, b.Name, fmt.Errorf("%s", why))
	}
	switch {
	case s.ObservedGeneration < b.Generation:
		return stillProcessed(b)
	case s.DisruptionsAllowed < 0:
		return forbidden("pdb disruptions allowed is negative")
	case len(s.DisruptedPods) > mostUnconfirmed:
		return forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller")
	case s.DisruptionsAllowed == 0:
		return tooManyDisruptions(0, whyNoDisruption(b))
	}
	return nil
}

// whyNoDisruption says why a budget allows no disruption. If its controller could not count, the counts say nothing.
func whyNoDisruption(b *policyv1.PodDisruptionBudget) string {
	s := &b.Status
	c := meta.FindStatusCondition(s.Conditions, policyv1.DisruptionAllowedCondition)
	told := c != nil && c.Status == metav1.ConditionFalse && c.Message != ""
	says := "The disruption budget " + b.Name + " does not allow evicting pods currently"
	switch {
	case told && c.Reason == policyv1.SyncFailedReason:
		return says + " because it failed sync: " + c.Message
	case s.CurrentHealthy <= s.DesiredHealthy:
		return fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", b.Name, s.DesiredHealthy, s.CurrentHealthy)
	case told:
		return fmt.Sprintf("%s (%s): %s", says, c.Reason, c.Message)
	}
	return says
}

// stillProcessed is the error of an eviction under a budget that its controller has not seen as it is now.
func stillProcessed(b *policyv1.PodDisruptionBudget) error {
	return tooManyDisruptions(10, fmt.Sprintf("The disruption budget %s is still being processed by the server.", b.Name))
}

func tooManyDisruptions(retrySeconds int, why string) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", retrySeconds)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: why})
	return err
}

func hasRevision(o *metav1.DeleteOptions) bool {
	return o.Preconditions != nil && o.Preconditions.ResourceVersion != nil
}

// delete deletes the pod; pinned: only if it has not changed. If another pod has its name by now, which no budget was asked
// about, the pod was not found.
func (e *eviction) delete(ctx context.Context, p *corev1.Pod, pinned bool) (runtime.Object, error) {
	err := e.markAndDelete(ctx, p, pinned)
	if apierrors.IsConflict(err) && (e.options.Preconditions == nil || e.options.Preconditions.UID == nil) {
		if now, gerr := e.Objects.Get(ctx, corev1.Resource("pods"), e.namespace, e.name); gerr == nil && now.GetUID() != p.UID {
			err = apierrors.NewNotFound(corev1.Resource("pods"), e.name)
		}
	}
	if err != nil {
		return nil, err
	}
	return &metav1.Status{Status: metav1.StatusSuccess}, nil
}

// markAndDelete sets the DisruptionTarget condition of the pod and deletes it.
func (e *eviction) markAndDelete(ctx context.Context, p *corev1.Pod, pinned bool) error {
	options := e.options.DeepCopy()
	if pinned && !hasRevision(options) {
		if options.Preconditions == nil {
			options.Preconditions = &metav1.Preconditions{}
		}
		options.Preconditions.ResourceVersion = &p.ResourceVersion
	}
	if !isDryRun(options.DryRun) {
		updated, err := e.Objects.Update(ctx, corev1.Resource("pods"), request.Same(p), false, func(obj engine.Object) error {
			return markEvicted(obj.(*corev1.Pod), options.Preconditions, e.Deps)
		})
		if err != nil {
			return err
		}
		if hasRevision(options) {
			revision := updated.GetResourceVersion()
			options.Preconditions.ResourceVersion = &revision
		}
	}
	return e.Objects.Delete(ctx, corev1.Resource("pods"), request.Same(p), options)
}

func markEvicted(p *corev1.Pod, pre *metav1.Preconditions, d Deps) error {
	if pre != nil {
		conflict := func(what, want, have, why string) error {
			return apierrors.NewConflict(schema.GroupResource{Resource: "Pod"}, p.Name,
				fmt.Errorf("the %s in the precondition (%s) does not match the %s in record (%s). The object might have been %s", what, want, what, have, why))
		}
		if u := pre.UID; u != nil && *u != "" && *u != p.UID {
			return conflict("UID", string(*u), string(p.UID), "deleted and then recreated")
		}
		if r := pre.ResourceVersion; r != nil && *r != "" && *r != p.ResourceVersion {
			return conflict("ResourceVersion", *r, p.ResourceVersion, "modified")
		}
	}
	setPodCondition(&p.Status, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
		Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting",
	}, d)
	return nil
}
