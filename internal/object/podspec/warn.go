package podspec

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// WarnName warns about the name of a workload that is not valid in the host names of its pods.
func WarnName(name string) []string {
	if errs := validation.IsDNS1123Label(name); len(errs) > 0 {
		return []string{fmt.Sprintf("metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: %v", errs)}
	}
	return nil
}

// WarnTemplate returns the warnings about the template at path, which may be nil, as may old, the template it replaces.
func WarnTemplate(path *field.Path, t, _ *corev1.PodTemplateSpec) []string {
	if t == nil {
		return nil
	}
	w := &warner{path: path, at: path.Child("spec"), spec: &t.Spec, meta: &t.ObjectMeta}
	return w.all(true)
}

var podSpec = field.NewPath("spec")

// WarnPod returns the warnings about a new pod.
func WarnPod(p *corev1.Pod) []string {
	w := &warner{at: podSpec, spec: &p.Spec, meta: &p.ObjectMeta}
	return w.all(false)
}

type warner struct {
	path *field.Path // of the template, nil for a pod
	at   *field.Path // of the spec
	spec *corev1.PodSpec
	meta *metav1.ObjectMeta
	list []string
}

func (w *warner) all(template bool) []string {
	w.annotations(template)
	w.nodes()
	w.podAffinity()
	w.volumes()
	w.duplicates()
	w.amounts()
	w.environment()
	w.ports()
	w.addresses()
	if s := w.spec.TerminationGracePeriodSeconds; s != nil && *s < 0 {
		w.warn(w.path.Child("spec", "terminationGracePeriodSeconds"), "must be >= 0; negative values are invalid and will be treated as 1")
	}
	return w.list
}

func (w *warner) warn(path *field.Path, format string, args ...any) {
	w.list = append(w.list, path.String()+": "+fmt.Sprintf(format, args...))
}

// deadAnnotations no longer have an effect.
var deadAnnotations = []struct{ key, advice string }{
	{"scheduler.alpha.kubernetes.io/critical-pod", `non-functional in v1.16+; use the "priorityClassName" field instead`},
	{"security.alpha.kubernetes.io/sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
	{"security.alpha.kubernetes.io/unsafe-sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
}

func (w *warner) annotations(template bool) {
	if len(w.meta.Annotations) == 0 {
		return
	}
	at := w.path.Child("metadata", "annotations")
	for _, dead := range deadAnnotations {
		if _, found := w.meta.Annotations[dead.key]; found {
			w.warn(at.Key(dead.key), "%s", dead.advice)
		}
	}
	seccomp := func(key string, is *corev1.SeccompProfile) {
		if _, found := w.meta.Annotations[key]; found && is == nil {
			w.warn(at.Key(key), `non-functional in v1.27+; use the "seccompProfile" field instead`)
		}
	}
	var podContext corev1.PodSecurityContext
	if c := w.spec.SecurityContext; c != nil {
		podContext = *c
	}
	seccomp(corev1.SeccompPodAnnotationKey, podContext.SeccompProfile)
	for container := range Containers(w.spec) {
		var c corev1.SecurityContext
		if container.SecurityContext != nil {
			c = *container.SecurityContext
		}
		seccomp(corev1.SeccompContainerAnnotationKeyPrefix+container.Name, c.SeccompProfile)
		key := appArmorAnnotation + container.Name
		annotation, found := w.meta.Annotations[key]
		// For pods, SyncAppArmor warns when it copies the annotations to fields.
		if !template || !found || c.AppArmorProfile != nil {
			continue
		}
		if p := podContext.AppArmorProfile; p == nil || !apiequality.Semantic.DeepEqual(p, profileOf(annotation)) {
			w.list = append(w.list, fmt.Sprintf(appArmorFieldAdvice, at.Key(key)))
		}
	}
}

func (w *warner) nodes() {
	for _, key := range slices.Sorted(maps.Keys(w.spec.NodeSelector)) {
		if advice := rules.DeprecatedNodeLabel(key); advice != "" {
			w.warn(w.path.Child("spec", "nodeSelector").Key(key), "%s", advice)
		}
	}
	if a := w.spec.Affinity; a != nil && a.NodeAffinity != nil {
		at := w.path.Child("spec", "affinity", "nodeAffinity")
		if r := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
			for i := range r.NodeSelectorTerms {
				w.list = append(w.list, rules.WarnNodeSelectorTerm(&r.NodeSelectorTerms[i], false,
					at.Child(requiredDuringScheduling, "nodeSelectorTerms").Index(i))...)
			}
		}
		for i := range a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
			t := &a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[i]
			w.list = append(w.list, rules.WarnNodeSelectorTerm(&t.Preference, true, at.Child(preferredDuringScheduling).Index(i).Child("preference"))...)
		}
	}
	for i, c := range w.spec.TopologySpreadConstraints {
		at := w.path.Child("spec", "topologySpreadConstraints").Index(i)
		if advice := rules.DeprecatedNodeLabel(c.TopologyKey); advice != "" {
			w.warn(at.Child("topologyKey"), "%s is %s", c.TopologyKey, advice)
		}
		if c.LabelSelector == nil {
			w.nullSelector(at)
		}
	}
}

func (w *warner) nullSelector(at *field.Path) {
	w.warn(at.Child("labelSelector"), "a null labelSelector results in matching no pod")
}

func (w *warner) podAffinity() {
	a := w.spec.Affinity
	if a == nil {
		return
	}
	terms := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, at *field.Path) {
		for i, t := range required {
			if t.LabelSelector == nil {
				w.nullSelector(at.Child(requiredDuringScheduling).Index(i))
			}
		}
		for i, t := range preferred {
			if t.PodAffinityTerm.LabelSelector == nil {
				w.nullSelector(at.Child(preferredDuringScheduling).Index(i).Child("podAffinityTerm"))
			}
		}
	}
	if p := a.PodAffinity; p != nil {
		terms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, w.path.Child("spec", "affinity", "podAffinity"))
	}
	if p := a.PodAntiAffinity; p != nil {
		terms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, w.path.Child("spec", "affinity", "podAntiAffinity"))
	}
}

// duplicates warns about lists in which a later entry of the same name hides or repeats the first.
func (w *warner) duplicates() {
	ips := map[string]bool{}
	for i, a := range w.spec.HostAliases {
		if ips[a.IP] {
			w.warn(w.path.Child("spec", "hostAliases").Index(i).Child("ip"), "duplicate ip %q", a.IP)
		}
		ips[a.IP] = true
	}
	secrets := map[string]bool{}
	for i, s := range w.spec.ImagePullSecrets {
		at := w.path.Child("spec", "imagePullSecrets").Index(i).Child("name")
		if secrets[s.Name] {
			w.warn(at, "duplicate name %q", s.Name)
		}
		if s.Name == "" {
			w.warn(at, `invalid empty name ""`)
		}
		secrets[s.Name] = true
	}
}

// amounts warns about fractional bytes.
func (w *warner) amounts() {
	fractions := func(list corev1.ResourceList, at func() *field.Path) {
		for _, name := range [...]corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
			if q, found := list[name]; found && !rules.IsWhole(q) {
				w.list = append(w.list, rules.WarnFraction(at().Key(string(name)), q.String()))
			}
		}
	}
	fractions(w.spec.Overhead, func() *field.Path { return w.at.Child("overhead") })
	for at, c := range ContainersAt(w.spec, w.at) {
		fractions(c.Resources.Limits, func() *field.Path { return at.Child("resources", "limits") })
		fractions(c.Resources.Requests, func() *field.Path { return at.Child("resources", "requests") })
	}
}

// environment warns about variables that replace an earlier one of the same name without using its value.
func (w *warner) environment() {
	for at, c := range ContainersAt(w.spec, w.at) {
		if len(c.Env) < 2 {
			continue
		}
		seen := make(map[string]bool, len(c.Env))
		for i, ev := range c.Env {
			if seen[ev.Name] && !extends(&ev) {
				w.warn(at.Child("env").Index(i), "hides previous definition of %q, which may be dropped when using apply", ev.Name)
			}
			seen[ev.Name] = true
		}
	}
}

func (w *warner) addresses() {
	if c := w.spec.DNSConfig; c != nil {
		for i, ip := range c.Nameservers {
			w.list = append(w.list, rules.WarnIP(w.path.Child("spec", "dnsConfig", "nameservers").Index(i), ip)...)
		}
	}
	for i, a := range w.spec.HostAliases {
		w.list = append(w.list, rules.WarnIP(w.path.Child("spec", "hostAliases").Index(i).Child("ip"), a.IP)...)
	}
}
