// Package podsecurity enforces the Pod Security Standard that the labels of a
// namespace ask for. It refuses pods; for workloads with a pod template it only
// warns, because their pods are checked themselves.
package podsecurity

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Name of the plugin in --enable-admission-plugins.
const Name = "PodSecurity"

type plugin struct {
	objects   admission.Objects
	evaluator policy.Evaluator
	metrics   *metrics
	config
}

// standards are the checks of all levels and versions, which all servers of a process share: they never change.
var standards = sync.OnceValues(func() (policy.Evaluator, error) { return policy.NewEvaluator(policy.DefaultChecks(), nil) })

// New makes the plugin. configuration is a PodSecurityConfiguration in YAML or
// JSON; without one, namespaces without labels are privileged. The registry, if
// there is one, gets the plugin's metrics.
func New(objects admission.Objects, configuration []byte, registry prometheus.Registerer) (admission.Plugin, error) {
	c, err := parse(configuration)
	if err != nil {
		return admission.Plugin{}, fmt.Errorf("configuration of %s: %w", Name, err)
	}
	evaluator, err := standards()
	if err != nil {
		return admission.Plugin{}, err
	}
	return admission.Plugin{
		Name: Name, Validator: &plugin{objects, evaluator, newMetrics(registry), c},
		On: []admission.Operation{admission.Create, admission.Update},
		Of: []schema.GroupResource{
			admission.Pods, admission.Namespaces,
			{Resource: "replicationcontrollers"}, {Resource: "podtemplates"},
			{Group: "apps", Resource: "replicasets"}, {Group: "apps", Resource: "deployments"},
			{Group: "apps", Resource: "statefulsets"}, {Group: "apps", Resource: "daemonsets"},
			{Group: "batch", Resource: "jobs"}, {Group: "batch", Resource: "cronjobs"},
		},
	}, nil
}

func (p *plugin) Validate(ctx context.Context, a *admission.Attributes) error {
	switch a.Resource.GroupResource() {
	case admission.Namespaces:
		return p.validateNamespace(ctx, a)
	case admission.Pods:
		return p.validatePod(ctx, a)
	}
	return p.validateTemplate(ctx, a)
}

// besides are the subresources of pods that do not carry a pod. All others are
// checked, including those that do not exist yet.
var besides = []string{"exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"}

func (p *plugin) validatePod(ctx context.Context, a *admission.Attributes) error {
	if slices.Contains(besides, a.Subresource) || p.exempt(ctx, a) {
		return nil
	}
	ns, err := admission.Seen[*corev1.Namespace](ctx, p.objects, admission.Namespaces, "", a.Namespace)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("look up namespace %q: %w", a.Namespace, err))
	}
	wanted, errs := api.PolicyToEvaluate(ns.Labels, p.defaults)
	if len(errs) == 0 && wanted.FullyPrivileged() {
		annotate(ctx, api.EnforcedPolicyAnnotationKey, api.LevelVersion{Level: api.LevelPrivileged, Version: api.LatestVersion()}.String())
		p.metrics.evaluated(a, wanted.Enforce, "enforce", true)
		return nil
	}
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return admission.WrongType(a)
	}
	if a.Operation == admission.Update {
		old, ok := a.OldObject.(*corev1.Pod)
		if !ok {
			return admission.WrongType(a)
		}
		if !changesImages(&pod.Spec, &old.Spec) {
			return nil
		}
	}
	if p.exemptClass(ctx, a, &pod.Spec) {
		return nil
	}
	if len(errs) > 0 {
		p.metrics.unreadable(a)
		annotate(ctx, "error", fmt.Sprintf("Failed to parse policy: %v", errs.ToAggregate()))
	}
	annotate(ctx, api.EnforcedPolicyAnnotationKey, wanted.Enforce.String())
	p.audit(ctx, a, wanted.Audit, &pod.ObjectMeta, &pod.Spec)
	r := p.judge(wanted.Enforce, &pod.ObjectMeta, &pod.Spec)
	p.metrics.evaluated(a, wanted.Enforce, "enforce", r.Allowed)
	if !r.Allowed {
		return apierrors.NewForbidden(a.Resource.GroupResource(), a.Name,
			fmt.Errorf("violates PodSecurity %q: %s", wanted.Enforce.String(), r.ForbiddenDetail()))
	}
	p.warn(ctx, a, wanted.Warn, &pod.ObjectMeta, &pod.Spec)
	return nil
}

// validateTemplate warns of a template whose pods would be refused or cause
// warnings.
func (p *plugin) validateTemplate(ctx context.Context, a *admission.Attributes) error {
	if a.Subresource != "" || p.exempt(ctx, a) {
		return nil
	}
	t := templateOf(a.Object)
	if t == nil {
		return nil
	}
	ns, err := admission.Seen[*corev1.Namespace](ctx, p.objects, admission.Namespaces, "", a.Namespace)
	if err != nil {
		return nil // the pods themselves are checked
	}
	wanted, errs := api.PolicyToEvaluate(ns.Labels, p.defaults)
	if len(errs) == 0 && wanted.FullyPrivileged() {
		return nil
	}
	if !p.exemptClass(ctx, a, &t.Spec) {
		p.audit(ctx, a, wanted.Audit, &t.ObjectMeta, &t.Spec)
		p.warn(ctx, a, wanted.Warn, &t.ObjectMeta, &t.Spec)
	}
	return nil
}

func templateOf(obj runtime.Object) *corev1.PodTemplateSpec {
	switch o := obj.(type) {
	case *corev1.PodTemplate:
		return &o.Template
	case *corev1.ReplicationController:
		return o.Spec.Template
	case *appsv1.ReplicaSet:
		return &o.Spec.Template
	case *appsv1.Deployment:
		return &o.Spec.Template
	case *appsv1.DaemonSet:
		return &o.Spec.Template
	case *appsv1.StatefulSet:
		return &o.Spec.Template
	case *batchv1.Job:
		return &o.Spec.Template
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template
	}
	return nil
}

func (p *plugin) judge(lv api.LevelVersion, meta *metav1.ObjectMeta, spec *corev1.PodSpec) policy.AggregateCheckResult {
	return policy.AggregateCheckResults(p.evaluator.EvaluatePod(lv, meta, spec))
}

func (p *plugin) warn(ctx context.Context, a *admission.Attributes, lv api.LevelVersion, meta *metav1.ObjectMeta, spec *corev1.PodSpec) {
	if r := p.judge(lv, meta, spec); !r.Allowed {
		p.metrics.evaluated(a, lv, "warn", false)
		request.AddWarning(ctx, fmt.Sprintf("would violate PodSecurity %q: %s", lv.String(), r.ForbiddenDetail()))
	}
}

// changesImages says that an update changes images; the standards do not depend
// on anything else that an update can change.
func changesImages(spec, old *corev1.PodSpec) bool {
	sameImage := func(a, b corev1.Container) bool { return a.Image == b.Image }
	if !slices.EqualFunc(spec.Containers, old.Containers, sameImage) || !slices.EqualFunc(spec.InitContainers, old.InitContainers, sameImage) {
		return true
	}
	images := map[string]string{}
	for _, c := range old.EphemeralContainers {
		images[c.Name] = c.Image
	}
	for _, c := range spec.EphemeralContainers {
		if image, ok := images[c.Name]; !ok || image != c.Image {
			return true
		}
	}
	return false
}
