//lint:file-ignore SA1019 deprecated fields are still served

package core

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func validateNode(n *corev1.Node, sloppy bool) field.ErrorList {
	e := rules.At(nil).Sloppy(sloppy)
	e.Add(rules.ObjectMeta(&n.ObjectMeta, false, rules.Subdomain))
	anyNode(n, e)
	preemptionPolicy(n.Spec.PodPreemptionPolicy, e.Field("spec").Field("podPreemptionPolicy"))
	if s := n.Status.NodeInfo.Swap; s != nil && s.Capacity != nil {
		e.Field("metadata").Field("nodeSwapStatus").Positive("capacity", *s.Capacity)
	}
	cidrs := e.Field("spec").Field("podCIDRs")
	for i, c := range n.Spec.PodCIDRs {
		cidrs.Item(i).CIDR(c, nil)
	}
	cidrs.OnePerFamily("CIDR", "invalid PodCIDRs. failed to check with dual stack", n.Spec.PodCIDRs, netutils.IsDualStackCIDRStrings)
	return e.List()
}

func validateNodeUpdate(_ context.Context, n, old *corev1.Node) field.ErrorList {
	e := rules.At(nil)
	e.Add(rules.ObjectMetaUpdate(&n.ObjectMeta, &old.ObjectMeta))
	anyNode(n, e)
	for i, a := range n.Status.Addresses {
		if slices.Contains(n.Status.Addresses[:i], a) {
			e.Field("status").Field("addresses").Item(i).Duplicate(a)
		}
	}
	spec := e.Field("spec")
	if p := n.Spec.PodPreemptionPolicy; !apiequality.Semantic.DeepEqual(p, old.Spec.PodPreemptionPolicy) {
		preemptionPolicy(p, spec.Field("podPreemptionPolicy"))
	}
	if len(old.Spec.PodCIDRs) > 0 && !slices.Equal(n.Spec.PodCIDRs, old.Spec.PodCIDRs) {
		spec.Field("podCIDRs").Forbidden("node updates may not change podCIDR except from \"\" to valid")
	}
	switch id := spec.Field("providerID"); {
	case old.Spec.ProviderID == "" || n.Spec.ProviderID == old.Spec.ProviderID:
	case n.Spec.ProviderID == "":
		id.Invalid(nil, "field cannot be cleared once set")
	default:
		id.Invalid(nil, "field cannot be modified once set")
	}
	if n.Spec.DoNotUseExternalID != old.Spec.DoNotUseExternalID {
		spec.Field("externalID").Forbidden("may not be changed")
	}
	if n.Spec.ConfigSource != nil {
		nodeConfig(n.Spec.ConfigSource, false, spec.Field("configSource"))
	}
	if c := n.Status.Config; c != nil {
		for name, source := range map[string]*corev1.NodeConfigSource{"assigned": c.Assigned, "active": c.Active, "lastKnownGood": c.LastKnownGood} {
			if source != nil {
				nodeConfig(source, true, e.Field("status").Field("config").Field(name))
			}
		}
	}
	return e.List()
}

// anyNode validates what applies to every write of a node, including its status.
func anyNode(n *corev1.Node, e rules.Errors) {
	annotations := e.Field("metadata").Field("annotations")
	if text := n.Annotations[corev1.TaintsAnnotationKey]; text != "" {
		var taints []corev1.Taint
		if err := json.Unmarshal([]byte(text), &taints); err != nil {
			annotations.Invalid(corev1.TaintsAnnotationKey, err.Error())
		} else {
			nodeTaints(taints, annotations.Field(corev1.TaintsAnnotationKey))
		}
	}
	if text := n.Annotations[corev1.PreferAvoidPodsAnnotationKey]; text != "" {
		avoidPods(text, annotations)
	}
	nodeTaints(n.Spec.Taints, e.Field("metadata").Field("taints")) // reported at their former path
	for name, list := range map[string]corev1.ResourceList{"capacity": n.Status.Capacity, "allocatable": n.Status.Allocatable} {
		for resource, q := range list {
			e.Field("status").Field(name).Field(string(resource)).Quantity(resource, q)
		}
	}
	declaredFeatures(n.Status.DeclaredFeatures, e.Field("status").Field("declaredFeatures"))
}

// preemptionPolicy validates the features on whose account no pod is preempted when another one is resized.
func preemptionPolicy(p *corev1.NodePodPreemptionPolicy, e rules.Errors) {
	const most = 20
	if p == nil {
		return
	}
	e = e.Field("disableResizePreemption")
	if len(p.DisableResizePreemption) > most {
		e.AddError(field.TooMany(e.Path(), len(p.DisableResizePreemption), most))
		return
	}
	for i, key := range p.DisableResizePreemption {
		e.Item(i).Messages(key, validation.IsQualifiedName(key))
	}
	unique(p.DisableResizePreemption, func(key *string) string { return *key }, e)
}

func nodeTaints(taints []corev1.Taint, e rules.Errors) {
	type id struct {
		key    string
		effect corev1.TaintEffect
	}
	seen := map[id]bool{}
	for i, t := range taints {
		item := e.Item(i)
		item.LabelKey("key", t.Key)
		if m := validation.IsValidLabelValue(t.Value); len(m) > 0 {
			item.Field("value").Messages(t.Value, m)
		}
		rules.RequiredOneOf(item, "effect", t.Effect, rules.TaintEffects)
		if seen[id{t.Key, t.Effect}] {
			twice := field.Duplicate(item.Path(), t)
			twice.Detail = "taints must be unique by key and effect pair"
			e.AddError(twice)
		}
		seen[id{t.Key, t.Effect}] = true
	}
}

// avoidPods validates an annotation with controllers whose pods should run on other nodes.
func avoidPods(text string, e rules.Errors) {
	var avoid corev1.AvoidPods
	if err := json.Unmarshal([]byte(text), &avoid); err != nil {
		e.Field("AvoidPods").Invalid(corev1.PreferAvoidPodsAnnotationKey, err.Error())
		return
	}
	for i, p := range avoid.PreferAvoidPods {
		at := e.Field(corev1.PreferAvoidPodsAnnotationKey).Item(i).Field("PodSignature")
		if c := p.PodSignature.PodController; c == nil {
			at.Required("")
		} else if !isTrue(c.Controller) {
			at.Field("PodController").Field("Controller").Invalid(false, "must be a controller")
		}
	}
}

var featureName = regexp.MustCompile(`^[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*$`)

func declaredFeatures(names []string, e rules.Errors) {
	for i, n := range names {
		if len(n) > validation.DNS1123SubdomainMaxLength || !featureName.MatchString(n) {
			e.Item(i).Invalid(n, "must be words in upper camel case, joined by '/'")
		}
		if i == 0 {
			continue
		}
		if names[i-1] == n {
			e.Item(i).Duplicate(n)
		} else if names[i-1] > n {
			e.Item(i).Invalid(n, "must be sorted")
		}
	}
}

// nodeConfig validates the reference to a kubelet's configuration in a config map. The feature was removed; nodes that
// used it may keep the field.
func nodeConfig(s *corev1.NodeConfigSource, status bool, e rules.Errors) {
	c := s.ConfigMap
	if c == nil {
		e.Invalid("", "must have one source")
		return
	}
	e = e.Field("configMap")
	for name, value := range map[string]string{"uid": string(c.UID), "resourceVersion": c.ResourceVersion} {
		if status {
			e.Present(name, value)
		} else if value != "" {
			e.Field(name).Forbidden(name + " may not be set in a spec")
		}
	}
	if e.Present("namespace", c.Namespace) {
		e.Name("namespace", c.Namespace, rules.NamespaceName)
	}
	if e.Present("name", c.Name) {
		e.Name("name", c.Name, rules.Subdomain)
	}
	if e.Present("kubeletConfigKey", c.KubeletConfigKey) {
		e.DataKey("kubeletConfigKey", c.KubeletConfigKey)
	}
}

func warnNode(n *corev1.Node) []string {
	var out []string
	if n.Spec.ConfigSource != nil {
		out = append(out, "spec.configSource: the feature is removed")
	}
	if n.Spec.DoNotUseExternalID != "" {
		out = append(out, "spec.externalID: this field is deprecated, and is unused by Kubernetes")
	}
	for i, c := range n.Spec.PodCIDRs {
		out = append(out, rules.WarnCIDR(field.NewPath("spec", "podCIDRs").Index(i), c)...)
	}
	return out
}
