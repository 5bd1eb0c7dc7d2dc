package podspec

import (
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// ValidateTemplate validates a pod template.
func ValidateTemplate(t *corev1.PodTemplateSpec, path *field.Path, o Options) field.ErrorList {
	e := rules.At(path)
	e.Labels("labels", t.Labels)
	e.Annotations("annotations", t.Annotations)
	e.Add(ValidateAnnotations(t.Annotations, &t.Spec, path.Child("annotations"), o))
	e.Add(ValidateSpec(&t.Spec, nil, path.Child("spec"), o))
	e.Add(ValidateProfiles(t.Annotations, &t.Spec, path.Child("spec")))
	if len(t.Spec.EphemeralContainers) > 0 {
		e.Field("spec").Field("ephemeralContainers").Forbidden("ephemeral containers not allowed in pod template")
	}
	return e.List()
}

// ValidateSpec validates a pod spec. meta is the pod's metadata, nil if the spec is a template's.
func ValidateSpec(spec *corev1.PodSpec, meta *metav1.ObjectMeta, path *field.Path, o Options) field.ErrorList {
	v := &validator{Options: o, spec: spec, meta: meta}
	e := rules.At(path).Sloppy(o.Gates.Off(features.StrictIPCIDRValidation))
	v.volumes(e.Field("volumes"))
	v.resourceClaims(e.Field("resourceClaims"))
	v.containers(e.Field("containers"))
	v.initContainers(e.Field("initContainers"))
	v.ephemeralContainers(e.Field("ephemeralContainers"))
	v.podResources(e)
	v.lifetime(e)
	v.identity(e)
	v.network(e)
	v.scheduling(e)
	v.podSecurity(e)
	v.operatingSystem(e)
	v.fileEnv(e)
	v.evictionResponders(e.Field("evictionResponders"))
	return e.List()
}

// validator holds facts about the whole pod that rules for its parts need.
type validator struct {
	Options
	spec *corev1.PodSpec
	meta *metav1.ObjectMeta
	// sources are the well-formed volumes, by name.
	sources map[string]*corev1.VolumeSource
	// claims are the names of the pod's resource claims.
	claims map[string]bool
}

var (
	restartPolicies = []corev1.RestartPolicy{
		corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever,
	}
	dnsPolicies = []corev1.DNSPolicy{
		corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone,
	}
	preemptionPolicies = []corev1.PreemptionPolicy{corev1.PreemptLowerPriority, corev1.PreemptNever}
)

// lifetime validates the grace period, restart policy, deadline and readiness gates.
func (v *validator) lifetime(e rules.Errors) {
	s := v.spec
	if s.TerminationGracePeriodSeconds == nil {
		e.Field("terminationGracePeriodSeconds").Required("")
	}
	rules.RequiredOneOf(e, "restartPolicy", s.RestartPolicy, restartPolicies)
	if s.ActiveDeadlineSeconds != nil {
		e.Range("activeDeadlineSeconds", *s.ActiveDeadlineSeconds, 1, math.MaxInt32)
	}
	for i, g := range s.ReadinessGates {
		e.Field("readinessGates").Item(i).Field("conditionType").QualifiedName(string(g.ConditionType))
	}
}

// identity validates the pod's host names and the objects it refers to.
func (v *validator) identity(e rules.Errors) {
	s := v.spec
	if s.ServiceAccountName != "" {
		e.Name("serviceAccountName", s.ServiceAccountName, rules.ServiceAccountName)
	}
	if s.NodeName != "" {
		e.Name("nodeName", s.NodeName, rules.Subdomain)
	}
	if s.PriorityClassName != "" {
		e.Name("priorityClassName", s.PriorityClassName, rules.Subdomain)
	}
	if s.RuntimeClassName != nil {
		e.Name("runtimeClassName", *s.RuntimeClassName, rules.Subdomain)
	}
	if s.PreemptionPolicy != nil {
		rules.RequiredOneOf(e, "preemptionPolicy", *s.PreemptionPolicy, preemptionPolicies)
	}
	if s.Hostname != "" {
		e.DNSLabel("hostname", s.Hostname)
	}
	if s.Subdomain != "" {
		e.DNSLabel("subdomain", s.Subdomain)
	}
	if s.HostnameOverride != nil {
		v.hostnameOverride(*s.HostnameOverride, e)
	}
	if g := s.SchedulingGroup; g != nil {
		if g.PodGroupName == nil {
			e.Field("schedulingGroup").Field("podGroupName").Invalid(nil, "must be set")
		} else {
			e.Field("schedulingGroup").Name("podGroupName", *g.PodGroupName, rules.Subdomain)
		}
		if len(s.EvictionResponders) > 0 {
			e.Field("schedulingGroup").Forbidden("may not be set when evictionResponders is set")
		}
	}
}

func (v *validator) hostnameOverride(name string, e rules.Errors) {
	if f := v.spec.SetHostnameAsFQDN; f != nil && *f {
		e.Field("hostnameOverride").Forbidden("may not be specified when setHostnameAsFQDN is true")
	}
	if v.spec.HostNetwork {
		e.Field("hostnameOverride").Forbidden("may not be specified when hostNetwork is true")
	}
	if len(name) > 64 {
		e.Field("hostnameOverride").TooLong(64)
	}
	e.DNSSubdomain("hostnameOverride", name)
}

// network validates DNS settings and the ports of pods in the host network.
func (v *validator) network(e rules.Errors) {
	s := v.spec
	rules.RequiredOneOf(e, "dnsPolicy", s.DNSPolicy, dnsPolicies)
	v.dnsConfig(e.Field("dnsConfig"))
	for i := range s.HostAliases {
		a := &s.HostAliases[i]
		item := e.Field("hostAliases").Item(i)
		item.Field("ip").IP(a.IP, nil)
		for j, name := range a.Hostnames {
			item.Field("hostnames").Item(j).Messages(name, validation.IsDNS1123Subdomain(name))
		}
	}
	if !s.HostNetwork {
		return
	}
	for i := range s.Containers {
		for j, p := range s.Containers[i].Ports {
			if p.HostPort != p.ContainerPort && (v.Pod || p.HostPort != 0) {
				e.Field("containers").Item(i).Field("ports").Item(j).Field("hostPort").
					Invalid(p.HostPort, "must match `containerPort` when `hostNetwork` is true")
			}
		}
	}
}

func (v *validator) dnsConfig(e rules.Errors) {
	const maxServers, maxSearches, maxSearchChars = 3, 32, 2048
	c := v.spec.DNSConfig
	if v.spec.DNSPolicy == corev1.DNSNone {
		if c == nil {
			e.Required("must provide `dnsConfig` when `dnsPolicy` is None")
			return
		}
		if len(c.Nameservers) == 0 {
			e.Field("nameservers").Required("must provide at least one DNS nameserver when `dnsPolicy` is None")
			return
		}
	}
	if c == nil {
		return
	}
	if len(c.Nameservers) > maxServers {
		e.Field("nameservers").Invalid(c.Nameservers, "must not have more than 3 nameservers")
	}
	for i, ip := range c.Nameservers {
		e.Field("nameservers").Item(i).IP(ip, nil)
	}
	if len(c.Searches) > maxSearches {
		e.Field("searches").Invalid(c.Searches, "must not have more than 32 search paths")
	}
	if len(strings.Join(c.Searches, " ")) > maxSearchChars {
		e.Field("searches").Invalid(c.Searches, "must not have more than 2048 characters (including spaces) in the search list")
	}
	for i, s := range c.Searches {
		if s != "." {
			e.Field("searches").Item(i).Messages(s, validation.IsDNS1123SubdomainWithUnderscore(strings.TrimSuffix(s, ".")))
		}
	}
	for i, o := range c.Options {
		if o.Name == "" {
			e.Field("options").Item(i).Required("must not be empty")
		}
	}
}

// resourceClaims validates the pod's resource claims.
func (v *validator) resourceClaims(e rules.Errors) {
	v.claims = make(map[string]bool, len(v.spec.ResourceClaims))
	for i := range v.spec.ResourceClaims {
		c, item := &v.spec.ResourceClaims[i], e.Item(i)
		if v.isMirror() {
			e.Elsewhere(field.NewPath("")).Forbidden("static pods do not support resource claims")
		} else {
			v.resourceClaim(c, item)
		}
		if c.Name != "" {
			v.claims[c.Name] = true
		}
	}
}

func (v *validator) resourceClaim(c *corev1.PodResourceClaim, e rules.Errors) {
	if e.Present("name", c.Name) {
		if v.claims[c.Name] {
			e.Field("name").Duplicate(c.Name)
		} else {
			e.DNSLabel("name", c.Name)
		}
	}
	if (c.ResourceClaimName == nil) == (c.ResourceClaimTemplateName == nil) {
		e.Invalid(*c, "must have one of resourceClaimName and resourceClaimTemplateName")
	}
	if n := c.ResourceClaimName; n != nil {
		e.Name("resourceClaimName", *n, rules.Subdomain)
	}
	if n := c.ResourceClaimTemplateName; n != nil {
		e.Name("resourceClaimTemplateName", *n, rules.Subdomain)
	}
}

// isMirror reports whether the pod is a mirror pod of a static pod.
func (v *validator) isMirror() bool {
	if v.meta == nil {
		return false
	}
	_, found := v.meta.Annotations[corev1.MirrorPodAnnotationKey]
	return found
}
