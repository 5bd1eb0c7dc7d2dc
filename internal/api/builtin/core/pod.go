package core

import (
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
)

func pods(d Deps) *engine.Resource {
	ephemeral, resize := ephemeralContainersRules(d), resizeRules(d)
	return &engine.Resource{
		Plural: "pods", Kind: "Pod",
		ShortNames:    []string{"po"},
		Categories:    []string{"all"},
		Namespaced:    true,
		ReturnDeleted: true,
		Versions:      only(engine.VersionOf[corev1.Pod, corev1.PodList](v1, d.Pods.DefaultPod)),
		Rules: engine.Typed[*corev1.Pod]{
			PrepareCreate: func(ctx context.Context, p *corev1.Pod) { preparePod(ctx, p, d) },
			Validate:      func(_ context.Context, p *corev1.Pod) field.ErrorList { return validatePodCreate(p, d) },
			Warn:          warnPod,
			PrepareUpdate: d.preparePodUpdate,
			ValidateUpdate: func(_ context.Context, p, old *corev1.Pod) field.ErrorList {
				return validatePodUpdate(p, old, podOptions(d, old))
			},
			Grace: podGrace,
			Reset: engine.ResetStatus,
		}.Rules(),
		Subresources: []*engine.Subresource{
			d.streamSubresource("attach", "PodAttachOptions", attachOptions),
			{
				Name: "binding", Verbs: []string{"create"},
				Kind:   v1.WithKind("Binding"),
				Create: bindPod(d),
				New:    func() engine.Object { return &corev1.Binding{} },
			},
			{Name: "ephemeralcontainers", Verbs: []string{"get", "patch", "update"}, Rules: &ephemeral},
			{
				Name: "eviction", Verbs: []string{"create"},
				Kind:   policyv1.SchemeGroupVersion.WithKind("Eviction"),
				Alike:  []schema.GroupVersion{{Group: policyv1.GroupName, Version: "v1beta1"}}, // which old clients send
				Create: evictPod(d),
				New:    func() engine.Object { return &policyv1.Eviction{} },
			},
			d.streamSubresource("exec", "PodExecOptions", execOptions),
			{Name: "log", Verbs: []string{"get"}, Connect: "log"},
			d.streamSubresource("portforward", "PodPortForwardOptions", portForwardOptions),
			proxySubresource("PodProxyOptions", func(path string) runtime.Object { return &corev1.PodProxyOptions{Path: path} }),
			{Name: "resize", Verbs: []string{"get", "patch", "update"}, Rules: &resize},
			podStatus(d),
		},
		Fields:       engine.Fields(podFields),
		FieldAliases: map[string]string{"spec.host": "spec.nodeName"},
		Trigger:      "spec.nodeName",
		Table:        podTable(),
	}
}

func podFields(p *corev1.Pod) fields.Set {
	ip := ""
	if len(p.Status.PodIPs) > 0 {
		ip = p.Status.PodIPs[0].IP
	}
	return fields.Set{
		"spec.nodeName":            p.Spec.NodeName,
		"spec.restartPolicy":       string(p.Spec.RestartPolicy),
		"spec.schedulerName":       p.Spec.SchedulerName,
		"spec.serviceAccountName":  p.Spec.ServiceAccountName,
		"spec.hostNetwork":         strconv.FormatBool(p.Spec.HostNetwork),
		"status.phase":             string(p.Status.Phase),
		"status.podIP":             ip,
		"status.podIPs":            "", // selectable, but never matches
		"status.nominatedNodeName": p.Status.NominatedNodeName,
	}
}

// podGrace returns the grace period of a deletion. A pod that is finished or has no node needs none.
func podGrace(_ context.Context, p *corev1.Pod, options *metav1.DeleteOptions) int64 {
	var seconds int64
	switch {
	case p.Spec.NodeName == "", p.Status.Phase == corev1.PodFailed, p.Status.Phase == corev1.PodSucceeded:
	case options.GracePeriodSeconds != nil:
		seconds = *options.GracePeriodSeconds
	case p.Spec.TerminationGracePeriodSeconds != nil:
		seconds = *p.Spec.TerminationGracePeriodSeconds
	}
	if seconds < 0 {
		seconds = 1
	}
	options.GracePeriodSeconds = &seconds
	return seconds
}
