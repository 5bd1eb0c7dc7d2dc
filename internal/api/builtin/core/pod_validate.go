package core

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/equal"
	"github.com/kanzen-io/kanzen/internal/object/podspec"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// podOptions returns the options for validating a pod that replaces old.
func podOptions(d Deps, old *corev1.Pod) podspec.Options {
	o := podspec.OptionsFor(d.Pods, &old.Spec, &old.ObjectMeta)
	o.Pod = true
	return o
}

// validatePod validates a pod, new or updated.
func validatePod(p *corev1.Pod, o podspec.Options) field.ErrorList {
	e := rules.At(field.NewPath("spec"))
	e.Add(rules.ObjectMeta(&p.ObjectMeta, true, rules.Subdomain))
	e.Add(podspec.ValidateAnnotations(p.Annotations, &p.Spec, field.NewPath("metadata", "annotations"), o))
	e.Add(podspec.ValidateSpec(&p.Spec, &p.ObjectMeta, e.Path(), o))
	e.Add(podspec.ValidateTokens(&p.Spec, e.Path()))
	e.Add(podspec.ValidateImages(p.Spec.Containers, e.Path().Child("containers")))
	e.Add(podspec.ValidateImages(p.Spec.InitContainers, e.Path().Child("initContainers")))
	return e.List()
}

func validatePodCreate(p *corev1.Pod, d Deps) field.ErrorList {
	e := rules.At(field.NewPath("spec"))
	e.Add(validatePod(p, podspec.Options{Pod: true, Policy: d.Pods}))
	if len(p.Spec.EphemeralContainers) > 0 {
		e.Field("ephemeralContainers").Forbidden("cannot be set on create")
	}
	if p.Spec.NodeName != "" && len(p.Spec.SchedulingGates) > 0 {
		e.Field("nodeName").Forbidden("cannot be set until all schedulingGates have been cleared")
	}
	e.Add(podspec.ValidateProfiles(p.Annotations, &p.Spec, e.Path()))
	return e.List()
}

func warnPod(_ context.Context, p, old *corev1.Pod) []string {
	if old != nil {
		return nil // updates are frequent, and made by programs
	}
	return append(rules.DNSPrefixWarning(p.Name, "the Pod's hostname"), podspec.WarnPod(p)...)
}

// mutablePodFields are the fields of a pod's spec that an update may change, as the refusal of others lists them.
const mutablePodFields = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`," +
	"`spec.tolerations` (only additions to existing tolerations)," +
	"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"

// validatePodUpdate reports changes of immutable fields: after creation, nearly all. The placement of a pod with
// scheduling gates may still be narrowed.
func validatePodUpdate(p, old *corev1.Pod, o podspec.Options) field.ErrorList {
	e := rules.At(field.NewPath("spec"))
	e.Add(rules.ObjectMetaUpdate(&p.ObjectMeta, &old.ObjectMeta))
	e.Add(validatePod(p, o))
	e.Add(validatePodAnnotations(p, old, o))
	if !updatedContainers(p.Spec.Containers, old.Spec.Containers, e.Field("containers")) ||
		!updatedContainers(p.Spec.InitContainers, old.Spec.InitContainers, e.Field("initContainers")) ||
		!updatedDeadline(p.Spec.ActiveDeadlineSeconds, old.Spec.ActiveDeadlineSeconds, e.Field("activeDeadlineSeconds")) {
		return e.List()
	}
	onlyAddedTolerations(p.Spec.Tolerations, old.Spec.Tolerations, e.Field("tolerations"))
	onlyRemovedGates(p.Spec.SchedulingGates, old.Spec.SchedulingGates, e.Field("schedulingGates"))
	if equal.Objects(&p.Spec, &old.Spec) {
		return e.List()
	}
	spec := p.Spec.DeepCopy()
	for i := range spec.Containers {
		spec.Containers[i].Image = old.Spec.Containers[i].Image
	}
	for i := range spec.InitContainers {
		spec.InitContainers[i].Image = old.Spec.InitContainers[i].Image
	}
	spec.ActiveDeadlineSeconds = old.Spec.ActiveDeadlineSeconds
	spec.SchedulingGates = old.Spec.SchedulingGates
	spec.Tolerations = old.Spec.Tolerations
	if len(old.Spec.SchedulingGates) > 0 {
		gatedPlacement(spec, &old.Spec, e)
	}
	if !equal.Objects(spec, &old.Spec) {
		e.Forbidden("pod updates may not change fields other than " + mutablePodFields + "\n" + diff.Diff(old.Spec, *spec))
	}
	return e.List()
}

// updatedContainers validates the images, and reports whether the number of containers is the same.
func updatedContainers(list, old []corev1.Container, e rules.Errors) bool {
	if len(list) != len(old) {
		e.Forbidden("pod updates may not add or remove containers")
		return false
	}
	return true
}

// updatedDeadline reports whether to continue: a deadline may only decrease.
func updatedDeadline(seconds, old *int64, e rules.Errors) bool {
	if seconds == nil {
		if old != nil {
			e.Invalid(nil, "must not update from a positive integer to nil value")
		}
		return true
	}
	if *seconds < 0 || *seconds > math.MaxInt32 {
		e.Invalid(*seconds, "must be between 0 and 2147483647, inclusive")
		return false
	}
	if old != nil && *old < *seconds {
		e.Invalid(*seconds, "must be less than or equal to previous value")
		return false
	}
	return true
}

func onlyAddedTolerations(list, old []corev1.Toleration, e rules.Errors) {
	for _, t := range old {
		same := func(n corev1.Toleration) bool {
			n.TolerationSeconds = t.TolerationSeconds
			return n == t
		}
		if !slices.ContainsFunc(list, same) {
			e.Forbidden("existing toleration can not be modified except its tolerationSeconds")
			return
		}
	}
}

func onlyRemovedGates(list, old []corev1.PodSchedulingGate, e rules.Errors) {
	for i, g := range list {
		if !slices.Contains(old, g) {
			e.Item(i).Field("name").Forbidden(fmt.Sprintf("only deletion is allowed, but found new scheduling gate '%s'", g.Name))
		}
	}
}

// gatedPlacement checks that a gated pod allows no more nodes than before, and resets those fields of spec to old.
func gatedPlacement(spec, old *corev1.PodSpec, e rules.Errors) {
	for key, value := range old.NodeSelector {
		if v, found := spec.NodeSelector[key]; !found || v != value {
			e.Field("nodeSelector").Invalid(spec.NodeSelector, "only additions to spec.nodeSelector are allowed (no mutations or deletions)")
			break
		}
	}
	spec.NodeSelector = maps.Clone(old.NodeSelector)
	var affinity, before *corev1.NodeAffinity
	if spec.Affinity != nil {
		affinity = spec.Affinity.NodeAffinity
	}
	if old.Affinity != nil {
		before = old.Affinity.NodeAffinity
	}
	if apiequality.Semantic.DeepEqual(affinity, before) {
		return
	}
	narrowedAffinity(affinity, before, e.Field("affinity").Field("nodeAffinity").
		Field("requiredDuringSchedulingIgnoredDuringExecution").Field("nodeSelectorTerms"))
	switch {
	case spec.Affinity == nil:
		spec.Affinity = &corev1.Affinity{NodeAffinity: before}
	case old.Affinity == nil && spec.Affinity.PodAffinity == nil && spec.Affinity.PodAntiAffinity == nil:
		spec.Affinity = nil
	default:
		spec.Affinity.NodeAffinity = before
	}
}

// narrowedAffinity checks that requirements were only added to each required term.
func narrowedAffinity(a, old *corev1.NodeAffinity, e rules.Errors) {
	if old == nil || old.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return
	}
	before := old.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	var terms []corev1.NodeSelectorTerm
	if a != nil && a.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		terms = a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}
	if len(before) > 0 && len(terms) != len(before) {
		e.Invalid(terms, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")
		return
	}
	for i := range before {
		if !extendsTerm(&terms[i], &before[i]) {
			e.Item(i).Invalid(terms[i], "only additions are allowed (no mutations or deletions)")
		}
	}
}

// extendsTerm reports whether t is old with more requirements. An empty term matches nothing, so adding to it would
// widen it.
func extendsTerm(t, old *corev1.NodeSelectorTerm) bool {
	if len(old.MatchExpressions)+len(old.MatchFields) == 0 {
		return len(t.MatchExpressions)+len(t.MatchFields) == 0
	}
	begins := func(list, old []corev1.NodeSelectorRequirement) bool {
		return len(list) >= len(old) && (len(old) == 0 || apiequality.Semantic.DeepEqual(list[:len(old)], old))
	}
	return begins(t.MatchExpressions, old.MatchExpressions) && begins(t.MatchFields, old.MatchFields)
}

// validatePodAnnotations reports changes of immutable annotations.
func validatePodAnnotations(p, old *corev1.Pod, o podspec.Options) field.ErrorList {
	at := field.NewPath("metadata", "annotations")
	e := rules.At(at)
	immutable := func(key string) bool {
		return key == corev1.MirrorPodAnnotationKey || strings.HasPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix)
	}
	for key, value := range old.Annotations {
		if v, found := p.Annotations[key]; immutable(key) && (!found || v != value) {
			e.Key(key).Forbidden("may not be changed or taken away")
		}
	}
	for key := range p.Annotations {
		if immutable(key) && !hasKey(old.Annotations, key) {
			e.Key(key).Forbidden("may not be added")
		}
	}
	e.Add(podspec.ValidateAnnotations(p.Annotations, &p.Spec, at, o))
	return e.List()
}
