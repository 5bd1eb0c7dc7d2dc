package podspec

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

var (
	tolerationOperators       = []corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists}
	unsatisfiableActions      = []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway}
	nodeInclusionPolicies     = []corev1.NodeInclusionPolicy{corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore}
	requiredDuringScheduling  = "requiredDuringSchedulingIgnoredDuringExecution"
	preferredDuringScheduling = "preferredDuringSchedulingIgnoredDuringExecution"
)

// scheduling validates the fields that restrict where a pod may run.
func (v *validator) scheduling(e rules.Errors) {
	s := v.spec
	e.Labels("nodeSelector", s.NodeSelector)
	if s.Affinity != nil {
		v.affinity(s.Affinity, e.Field("affinity"))
	}
	if len(s.SchedulingGates) > 0 {
		schedulingGates(s.SchedulingGates, e.Field("schedulingGates"))
	}
	if len(s.TopologySpreadConstraints) > 0 {
		v.topologySpread(s.TopologySpreadConstraints, e.Field("topologySpreadConstraints"))
	}
	if len(s.Tolerations) > 0 {
		e.Add(ValidateTolerations(s.Tolerations, e.Path().Child("tolerations"), v.Options))
	}
	if s.Overhead != nil {
		v.resources(&corev1.ResourceRequirements{Limits: s.Overhead}, rules.Errors.ContainerResourceName, e.Field("overhead"))
	}
}

func schedulingGates(gates []corev1.PodSchedulingGate, e rules.Errors) {
	seen := map[string]bool{}
	for i, g := range gates {
		e.Item(i).QualifiedName(g.Name)
		if seen[g.Name] {
			e.Item(i).Duplicate(g.Name)
		}
		seen[g.Name] = true
	}
}

// ValidateTolerations validates tolerations.
func ValidateTolerations(list []corev1.Toleration, path *field.Path, o Options) field.ErrorList {
	e := rules.At(path)
	for i := range list {
		toleration(&list[i], o, e.Item(i))
	}
	return e.List()
}

func toleration(t *corev1.Toleration, o Options, e rules.Errors) {
	if t.Key != "" {
		e.LabelKey("key", t.Key)
	} else if t.Operator != corev1.TolerationOpExists {
		e.Field("operator").Invalid(t.Operator, "operator must be Exists when `key` is empty, which means \"match all values and all keys\"")
	}
	if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
		e.Field("effect").Invalid(t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
	}
	switch t.Operator {
	case corev1.TolerationOpEqual, "":
		if m := validation.IsValidLabelValue(t.Value); len(m) > 0 {
			e.Field("operator").Invalid(t.Value, m[0])
		}
	case corev1.TolerationOpExists:
		if t.Value != "" {
			e.Field("operator").Invalid(t.Value, "value must be empty when `operator` is 'Exists'")
		}
	case corev1.TolerationOpLt, corev1.TolerationOpGt:
		if !o.AllowComparingTolerations && !o.Gates.Enabled(features.TaintTolerationComparisonOperators) {
			rules.OneOf(e, "operator", t.Operator, tolerationOperators)
			break
		}
		e.Field("value").Messages(t.Value, content.IsDecimalInteger(t.Value))
		if _, err := strconv.ParseInt(t.Value, 10, 64); err != nil {
			e.Field("value").Invalid(t.Value, err.Error())
		}
	default:
		rules.OneOf(e, "operator", t.Operator, tolerationOperators)
	}
	if t.Effect != "" {
		rules.OneOf(e, "effect", t.Effect, rules.TaintEffects)
	}
}

func (v *validator) affinity(a *corev1.Affinity, e rules.Errors) {
	if n := a.NodeAffinity; n != nil {
		e := e.Field("nodeAffinity")
		if n.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			rules.NodeSelector(n.RequiredDuringSchedulingIgnoredDuringExecution, v.AllowInvalidNodeAffinityValues, e.Field(requiredDuringScheduling))
		}
		for i := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			t, item := &n.PreferredDuringSchedulingIgnoredDuringExecution[i], e.Field(preferredDuringScheduling).Item(i)
			weight(item, t.Weight)
			rules.NodeSelectorTerm(&t.Preference, true, item.Field("preference"))
		}
	}
	if p := a.PodAffinity; p != nil {
		v.podAffinity(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, e.Field("podAffinity"))
	}
	if p := a.PodAntiAffinity; p != nil {
		v.podAffinity(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, e.Field("podAntiAffinity"))
	}
}

func (v *validator) podAffinity(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, e rules.Errors) {
	for i := range required {
		v.podAffinityTerm(&required[i], e.Field(requiredDuringScheduling).Item(i))
	}
	for i := range preferred {
		item := e.Field(preferredDuringScheduling).Item(i)
		weight(item, preferred[i].Weight)
		v.podAffinityTerm(&preferred[i].PodAffinityTerm, item.Field("podAffinityTerm"))
	}
}

func (v *validator) podAffinityTerm(t *corev1.PodAffinityTerm, e rules.Errors) {
	e.LabelSelector("labelSelector", t.LabelSelector, v.AllowInvalidAffinitySelectors)
	e.LabelSelector("namespaceSelector", t.NamespaceSelector, v.AllowInvalidAffinitySelectors)
	for _, n := range t.Namespaces {
		e.Name("namespace", n, rules.NamespaceName)
	}
	matchLabelKeys(t.MatchLabelKeys, t.MismatchLabelKeys, t.LabelSelector, e)
	topologyKey(e, t.TopologyKey)
	e.LabelKey("topologyKey", t.TopologyKey)
}

// matchLabelKeys validates label keys whose values in the pod are merged into a selector.
func matchLabelKeys(match, mismatch []string, s *metav1.LabelSelector, e rules.Errors) {
	if len(match) == 0 && len(mismatch) == 0 {
		return
	}
	labelKeys(match, s, e.Field("matchLabelKeys"))
	labelKeys(mismatch, s, e.Field("mismatchLabelKeys"))
	matched := map[string]int{}
	for i, k := range match {
		matched[k] = i
	}
	if s != nil {
		// The merge itself adds each key to the selector once.
		seen := map[string]bool{}
		for k := range s.MatchLabels {
			seen[k] = true
		}
		for _, r := range s.MatchExpressions {
			if i, found := matched[r.Key]; found && seen[r.Key] {
				e.Item(i).Invalid(r.Key, "is in the selector as well")
			}
			seen[r.Key] = true
		}
	}
	for _, k := range mismatch {
		for i, m := range match {
			if m == k {
				e.Field("matchLabelKeys").Item(i).Invalid(k, "is in mismatchLabelKeys as well")
			}
		}
	}
}

func labelKeys(keys []string, s *metav1.LabelSelector, e rules.Errors) {
	if len(keys) == 0 {
		return
	}
	if s == nil {
		e.Forbidden("needs a labelSelector")
		return
	}
	for i, k := range keys {
		e.Item(i).QualifiedName(k)
	}
}

func (v *validator) topologySpread(list []corev1.TopologySpreadConstraint, e rules.Errors) {
	for i := range list {
		c, item := &list[i], e.Item(i)
		item.Positive("maxSkew", int64(c.MaxSkew))
		topologyKey(item, c.TopologyKey)
		rules.OneOf(item, "whenUnsatisfiable", c.WhenUnsatisfiable, unsatisfiableActions)
		for j := i + 1; j < len(list); j++ {
			if list[j].TopologyKey == c.TopologyKey && list[j].WhenUnsatisfiable == c.WhenUnsatisfiable {
				item.Field("{topologyKey, whenUnsatisfiable}").Duplicate("{" + c.TopologyKey + ", " + string(c.WhenUnsatisfiable) + "}")
				break
			}
		}
		if c.MinDomains != nil {
			item.Positive("minDomains", int64(*c.MinDomains))
			if c.WhenUnsatisfiable != corev1.DoNotSchedule {
				item.Field("minDomains").Invalid(*c.MinDomains, "is for whenUnsatisfiable DoNotSchedule")
			}
		}
		if c.NodeAffinityPolicy != nil {
			rules.OneOf(item, "nodeAffinityPolicy", *c.NodeAffinityPolicy, nodeInclusionPolicies)
		}
		if c.NodeTaintsPolicy != nil {
			rules.OneOf(item, "nodeTaintsPolicy", *c.NodeTaintsPolicy, nodeInclusionPolicies)
		}
		spreadKeys(c, v.FormerSpreadKeys, item)
		if !v.AllowInvalidSpreadSelectors {
			item.LabelSelector("labelSelector", c.LabelSelector, false)
		}
	}
}

func spreadKeys(c *corev1.TopologySpreadConstraint, former bool, e rules.Errors) {
	if former {
		oldMatchLabelKeys(c, e.Field("matchLabelKeys"))
	} else {
		matchLabelKeys(c.MatchLabelKeys, nil, c.LabelSelector, e)
	}
}

// oldMatchLabelKeys applies the rules from before the keys were merged into the selector.
func oldMatchLabelKeys(c *corev1.TopologySpreadConstraint, e rules.Errors) {
	if len(c.MatchLabelKeys) == 0 {
		return
	}
	selected := map[string]bool{}
	if c.LabelSelector == nil {
		e.Forbidden("needs a labelSelector")
	} else {
		for k := range c.LabelSelector.MatchLabels {
			selected[k] = true
		}
		for _, r := range c.LabelSelector.MatchExpressions {
			selected[r.Key] = true
		}
	}
	for i, k := range c.MatchLabelKeys {
		e.Item(i).QualifiedName(k)
		if selected[k] {
			e.Item(i).Invalid(k, "is in the selector as well")
		}
	}
}

func weight(e rules.Errors, n int32) {
	if n < 1 || n > 100 {
		e.Field("weight").Invalid(n, "must be in the range 1-100")
	}
}

func topologyKey(e rules.Errors, key string) {
	if key == "" {
		e.Field("topologyKey").Required("can not be empty")
	}
}
