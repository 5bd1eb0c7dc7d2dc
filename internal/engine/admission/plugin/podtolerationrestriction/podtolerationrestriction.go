// Package podtolerationrestriction adds the default tolerations in a
// namespace's annotations to its pods, and refuses tolerations that the
// namespace does not allow.
package podtolerationrestriction

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/tolerations"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/podspec"
)

// Name of the plugin in --enable-admission-plugins.
const Name = "PodTolerationRestriction"

const (
	defaultAnnotation = "scheduler.alpha.kubernetes.io/defaultTolerations"
	allowedAnnotation = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
)

// config is for namespaces without annotations.
type config struct {
	metav1.TypeMeta `json:",inline"`
	Default         []corev1.Toleration `json:"default"`
	Allowed         []corev1.Toleration `json:"whitelist"`
}

type plugin struct {
	objects admission.Objects
	config
}

// New makes the plugin. configuration is YAML or JSON, or empty.
func New(objects admission.Objects, configuration []byte) (admission.Plugin, error) {
	p := &plugin{objects: objects}
	if err := yaml.UnmarshalStrict(configuration, &p.config); err != nil {
		return admission.Plugin{}, fmt.Errorf("configuration of %s: %w", Name, err)
	}
	return admission.Plugin{
		Name: Name, Mutator: p, Validator: p,
		On: []admission.Operation{admission.Create, admission.Update}, Of: []schema.GroupResource{admission.Pods},
	}, nil
}

func (p *plugin) Admit(ctx context.Context, a *admission.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok || a.Subresource != "" {
		return nil
	}
	var extra []corev1.Toleration
	if a.Operation == admission.Create {
		given, err := p.annotated(ctx, a.Namespace, defaultAnnotation)
		if err != nil {
			return err
		}
		if extra = given; given == nil {
			extra = p.Default
		}
	}
	class := pod.Status.QOSClass
	if class == "" {
		class = podspec.QOSClass(&pod.Spec, features.Set{})
	}
	if class != corev1.PodQOSBestEffort {
		extra = append(extra[:len(extra):len(extra)], corev1.Toleration{
			Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule,
		})
	}
	if len(extra) > 0 {
		pod.Spec.Tolerations = tolerations.Merge(pod.Spec.Tolerations, extra)
	}
	return p.Validate(ctx, a)
}

func (p *plugin) Validate(ctx context.Context, a *admission.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok || a.Subresource != "" || len(pod.Spec.Tolerations) == 0 {
		return nil
	}
	allowed, err := p.annotated(ctx, a.Namespace, allowedAnnotation)
	if err != nil {
		return err
	}
	scope := "namespace"
	if allowed == nil {
		allowed, scope = p.Allowed, "cluster"
	}
	if !tolerations.Within(pod.Spec.Tolerations, allowed) {
		return fmt.Errorf("pod tolerations (possibly merged with namespace default tolerations) conflict with its %s whitelist", scope)
	}
	return nil
}

// annotated returns the tolerations of an annotation; nil: there is none.
func (p *plugin) annotated(ctx context.Context, namespace, annotation string) ([]corev1.Toleration, error) {
	ns, err := admission.Seen[*corev1.Namespace](ctx, p.objects, admission.Namespaces, "", namespace)
	if apierrors.IsNotFound(err) {
		return nil, err
	}
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	text, ok := ns.Annotations[annotation]
	if !ok {
		return nil, nil
	}
	list := []corev1.Toleration{}
	if text == "" {
		return list, nil
	}
	return list, json.Unmarshal([]byte(text), &list)
}
