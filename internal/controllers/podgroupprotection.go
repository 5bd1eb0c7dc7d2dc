package controllers

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"

	"github.com/kanzen-io/kanzen/internal/base/queue"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/store"
)

// runPodGroupProtection keeps PodGroups until all pods of theirs have ended. Admission puts the finalizer on new ones.
func runPodGroupProtection(ctx context.Context, c Config, cl *inprocess.Client) {
	ep := c.endpoint(schedulingv1alpha3.Resource("podgroups"))
	if ep == nil || !c.Gates.Enabled(features.GenericWorkload) {
		return
	}
	pods := engine.IndexOf[*corev1.Pod](c.endpoint(corev1.Resource("pods")))
	waiting := make(chan struct{}, 1) // a group waits for pods
	p := &protector[*schedulingv1alpha3.PodGroup]{
		endpoint: ep, objects: engine.IndexOf[*schedulingv1alpha3.PodGroup](ep), client: cl, finalizer: "scheduling.k8s.io/podgroup-protection",
		removesOnly: true,
	}
	p.used = func(ctx context.Context, group *schedulingv1alpha3.PodGroup) (bool, error) {
		if err := c.Store.Fresh(ctx); err != nil {
			return false, err
		}
		all, err := pods.Objects(ctx, group.Namespace+"/")
		used := slices.ContainsFunc(all, func(pod *corev1.Pod) bool { return !over(pod) && groupOf(pod) == group.Name })
		if used {
			need(waiting)
		}
		return used, err
	}
	c.work(ctx, "podgroupprotection", once(p.look), follow(p.objects, p.changed), whenNeeded(waiting, podsOfGroups(pods), p.again))
}

// groupOf returns the name of a pod's PodGroup; "" if it has none.
func groupOf(pod *corev1.Pod) string {
	if g := pod.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		return *g.PodGroupName
	}
	return ""
}

// over reports whether a pod has ended.
func over(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// podsOfGroups queues the groups of pods that end.
func podsOfGroups(pods *store.Index[*corev1.Pod]) func(context.Context, *queue.Queue, func(int64)) {
	return func(ctx context.Context, q *queue.Queue, caught func(int64)) {
		pods.Follow(ctx, func(c store.Change[*corev1.Pod]) {
			if was, ok := c.Was(ctx); ok && groupOf(was) != "" && (c.Gone || c.Now == nil || c.Now.UID != was.UID || over(c.Now)) {
				q.Add(c.Namespace() + "/" + groupOf(was))
			}
		}, caught)
	}
}
