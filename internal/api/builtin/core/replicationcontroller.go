package core

import (
	"context"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/podspec"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func replicationControllers(d Deps) *engine.Resource {
	return &engine.Resource{
		Plural: "replicationcontrollers", Kind: "ReplicationController",
		ShortNames: []string{"rc"},
		Categories: []string{"all"},
		Namespaced: true,
		Prefix:     "controllers",
		Versions: only(engine.VersionOf[corev1.ReplicationController, corev1.ReplicationControllerList](
			v1, defaultReplicationController)),
		Rules: engine.Typed[*corev1.ReplicationController]{
			StatusApart: true,
			CountsSpec:  true,
			PrepareCreate: func(_ context.Context, c *corev1.ReplicationController) {
				d.Pods.DropDisabledTemplate(c.Spec.Template, nil)
			},
			Validate: func(_ context.Context, c *corev1.ReplicationController) field.ErrorList {
				return append(rules.ObjectMetaOfName(&c.ObjectMeta, true, rules.Subdomain),
					replicationControllerSpec(&c.Spec, podspec.OptionsForTemplate(d.Pods, nil))...)
			},
			Warn: warnReplicationController,
			PrepareUpdate: func(_ context.Context, c, old *corev1.ReplicationController) {
				d.Pods.DropDisabledTemplate(c.Spec.Template, old.Spec.Template)
			},
			ValidateUpdate: func(_ context.Context, c, old *corev1.ReplicationController) field.ErrorList {
				o := podspec.OptionsForTemplate(d.Pods, old.Spec.Template)
				return append(rules.ObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta), replicationControllerSpec(&c.Spec, o)...)
			},
			DefaultOrphan: true,
		}.Rules(),
		Subresources: []*engine.Subresource{
			{
				Name: "scale", Verbs: []string{"get", "patch", "update"},
				Kind:  schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"},
				Scale: replicationControllerScale(),
			},
			engine.Status(engine.Typed[*corev1.ReplicationController]{
				ValidateUpdate: validateReplicationControllerStatus,
			}),
		},
		Fields: engine.Fields(func(c *corev1.ReplicationController) fields.Set {
			return fields.Set{"status.replicas": strconv.Itoa(int(c.Status.Replicas))}
		}),
		Table: replicationControllerTable(),
	}
}

// defaultReplicationController takes selector and labels from the template, before the template gets its own defaults.
func defaultReplicationController(c *corev1.ReplicationController) {
	if t := c.Spec.Template; t != nil {
		if t.Labels != nil && len(c.Spec.Selector) == 0 {
			c.Spec.Selector = maps.Clone(t.Labels)
		}
		if t.Labels != nil && len(c.Labels) == 0 {
			c.Labels = maps.Clone(t.Labels)
		}
		podspec.DefaultTemplate(t)
	}
	rules.DefaultPtr(&c.Spec.Replicas, 1)
}

func replicationControllerScale() *engine.Scale {
	return &engine.Scale{
		Get: func(obj engine.Object) (int32, int32, string, error) {
			c := obj.(*corev1.ReplicationController)
			return *c.Spec.Replicas, c.Status.Replicas, labels.SelectorFromSet(c.Spec.Selector).String(), nil
		},
		Set: func(obj engine.Object, replicas int32) error {
			obj.(*corev1.ReplicationController).Spec.Replicas = &replicas
			return nil
		},
		Path: fieldpath.MakePathOrDie("spec", "replicas"),
	}
}

func replicationControllerSpec(s *corev1.ReplicationControllerSpec, o podspec.Options) field.ErrorList {
	e := rules.At(field.NewPath("spec"))
	e.Nonnegative("minReadySeconds", int64(s.MinReadySeconds))
	if len(s.Selector) == 0 {
		e.Field("selector").Required("")
	}
	if s.Replicas == nil {
		e.Field("replicas").Required("")
	} else {
		e.Nonnegative("replicas", int64(*s.Replicas))
	}
	t, at := s.Template, e.Field("template")
	if t == nil {
		at.Required("")
		return e.List()
	}
	if !labels.SelectorFromSet(s.Selector).Matches(labels.Set(t.Labels)) {
		at.Field("metadata").Field("labels").Invalid(t.Labels, "`selector` does not match template `labels`")
	}
	e.Add(podspec.ValidateTemplate(t, at.Path(), o))
	rules.OneOf(at.Field("spec"), "restartPolicy", t.Spec.RestartPolicy, []corev1.RestartPolicy{corev1.RestartPolicyAlways})
	if t.Spec.ActiveDeadlineSeconds != nil {
		at.Field("spec").Field("activeDeadlineSeconds").Forbidden("not for replication controllers")
	}
	return e.List()
}

func validateReplicationControllerStatus(_ context.Context, c, old *corev1.ReplicationController) field.ErrorList {
	e := rules.At(field.NewPath("status"))
	e.Add(rules.ObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta))
	s := &c.Status
	e.Nonnegative("replicas", int64(s.Replicas))
	e.Nonnegative("observedGeneration", s.ObservedGeneration)
	for name, n := range map[string]int32{
		"fullyLabeledReplicas": s.FullyLabeledReplicas, "readyReplicas": s.ReadyReplicas, "availableReplicas": s.AvailableReplicas,
	} {
		e.Nonnegative(name, int64(n))
		if n > s.Replicas {
			e.Field(name).Invalid(n, "cannot be greater than status.replicas")
		}
	}
	if s.AvailableReplicas > s.ReadyReplicas {
		e.Field("availableReplicas").Invalid(s.AvailableReplicas, "must not be above readyReplicas")
	}
	return e.List()
}

func warnReplicationController(_ context.Context, c, old *corev1.ReplicationController) []string {
	path := field.NewPath("spec", "template")
	switch {
	case old == nil:
		return append(rules.DNSPrefixWarning(c.Name, "Pod names and hostnames"), podspec.WarnTemplate(path, c.Spec.Template, nil)...)
	case c.Generation != old.Generation:
		return podspec.WarnTemplate(path, old.Spec.Template, c.Spec.Template)
	}
	return nil
}
