package core

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/podspec"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func validatePodStatus(p, old *corev1.Pod, o podspec.Options) field.ErrorList {
	e := rules.At(field.NewPath("status")).Sloppy(o.Gates.Off(features.StrictIPCIDRValidation))
	e.Add(rules.ObjectMetaUpdate(&p.ObjectMeta, &old.ObjectMeta))
	e.Add(validatePodAnnotations(p, old, o))
	s, before := &p.Status, &old.Status
	podConditions(s.Conditions, e.Field("conditions"))
	if n := s.NominatedNodeName; n != "" && n != before.NominatedNodeName {
		e.Name("nominatedNodeName", n, rules.Subdomain)
		if old.Spec.NodeName != "" && o.Gates.Enabled(features.ClearingNominatedNodeNameAfterBinding) {
			e.Field("nominatedNodeName").Forbidden("the pod has a node")
		}
	}
	e.Nonnegative("observedGeneration", s.ObservedGeneration)
	e.Add(rules.Immutable(s.QOSClass, before.QOSClass, e.Path().Child("qosClass")))
	for _, kind := range []struct {
		name       string
		list, old  []corev1.ContainerStatus
		containers []corev1.Container
		restarts   bool // whether terminated containers may restart
	}{
		{"containerStatuses", s.ContainerStatuses, before.ContainerStatuses, p.Spec.Containers, true},
		{"initContainerStatuses", s.InitContainerStatuses, before.InitContainerStatuses, p.Spec.InitContainers, true},
		{"ephemeralContainerStatuses", s.EphemeralContainerStatuses, before.EphemeralContainerStatuses, nil, false},
	} {
		at := e.Field(kind.name)
		if !kind.restarts || !podspec.RestartsAll(&old.Spec) {
			staysEnded(kind.list, kind.old, kind.containers, &old.Spec, at)
		}
		for i := range kind.list {
			containerUser(&kind.list[i], p.Spec.OS, at.Item(i))
			if o.Gates.Enabled(features.ImageVolumeWithDigest) {
				mountedImages(kind.list[i].VolumeMounts, at.Item(i).Field("volumeMounts"))
			}
			if kind.containers != nil {
				resourceHealth(&kind.list[i], kind.containers, at.Item(i).Field("allocatedResourcesStatus"))
			} else if len(kind.list[i].AllocatedResourcesStatus) > 0 && !kind.restarts {
				at.Item(i).Field("allocatedResourcesStatus").Forbidden("not for ephemeral containers")
			}
		}
	}
	claimStatuses(s, &p.Spec, e)
	podVolumeHealth(s.VolumeHealth, &p.Spec, e.Field("volumeHealth"))
	podIPs(s, before, e)
	return e.List()
}

// mountedImages validates which images are mounted as volumes.
func mountedImages(list []corev1.VolumeMountStatus, e rules.Errors) {
	const longest = 256
	for i := range list {
		if list[i].VolumeStatus == nil || list[i].VolumeStatus.Image == nil {
			continue
		}
		ref, at := list[i].VolumeStatus.Image.ImageRef, e.Item(i).Field("volumeStatus").Field("imageVolumeStatus")
		if at.Present("imageRef", ref) && len(ref) > longest {
			at.Field("imageRef").TooLong(longest)
		}
	}
}

func podConditions(list []corev1.PodCondition, e rules.Errors) {
	for i, c := range list {
		e.Item(i).Nonnegative("observedGeneration", c.ObservedGeneration)
		switch c.Type {
		case corev1.PodScheduled, corev1.PodReady, corev1.PodInitialized:
		default:
			e.Item(i).LabelKey("Type", string(c.Type))
		}
	}
}

// staysEnded checks that a terminated container does not run again, unless it restarts.
func staysEnded(list, old []corev1.ContainerStatus, containers []corev1.Container, spec *corev1.PodSpec, e rules.Errors) {
	for i := range old {
		ended := old[i].State.Terminated
		if ended == nil {
			continue
		}
		n := slices.IndexFunc(list, func(s corev1.ContainerStatus) bool { return s.Name == old[i].Name })
		if n < 0 || list[n].State.Terminated != nil {
			continue
		}
		c := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == old[i].Name })
		if c < 0 || !podspec.Restarts(&containers[c], spec, ended.ExitCode) {
			e.Item(i).Field("state").Forbidden("a container that has ended may not run again")
		}
	}
}

func containerUser(s *corev1.ContainerStatus, os *corev1.PodOS, e rules.Errors) {
	if s.User == nil || s.User.Linux == nil {
		return
	}
	u, at := s.User.Linux, e.Field("user").Field("linux")
	if os != nil && os.Name == corev1.Windows {
		at.Forbidden("not for windows pods")
		return
	}
	if os != nil && os.Name != corev1.Linux {
		return
	}
	at.Field("uid").Messages(u.UID, validation.IsValidUserID(u.UID))
	at.Field("gid").Messages(u.GID, validation.IsValidGroupID(u.GID))
	for i, g := range u.SupplementalGroups {
		at.Field("supplementalGroups").Item(i).Messages(g, validation.IsValidGroupID(g))
	}
}

var healths = []corev1.ResourceHealthStatus{
	corev1.ResourceHealthStatusHealthy, corev1.ResourceHealthStatusUnhealthy, corev1.ResourceHealthStatusUnknown,
}

// resourceHealth validates the health of a container's devices.
func resourceHealth(s *corev1.ContainerStatus, containers []corev1.Container, e rules.Errors) {
	c := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == s.Name })
	for i := range s.AllocatedResourcesStatus {
		r, item := &s.AllocatedResourcesStatus[i], e.Item(i)
		if c >= 0 && !asksFor(&containers[c].Resources, r.Name) {
			item.Field("name").Invalid(r.Name, "the container does not ask for it")
		}
		seen := map[corev1.ResourceID]bool{}
		for j, h := range r.Resources {
			at := item.Field("resources").Item(j)
			rules.OneOf(at, "health", h.Health, healths)
			if h.Message != nil && at.Present("message", *h.Message) && len(*h.Message) > corev1.ResourceHealthMessageMaxLength {
				at.Field("message").TooLong(corev1.ResourceHealthMessageMaxLength)
			}
			if seen[h.ResourceID] {
				at.Field("resourceID").Duplicate(h.ResourceID)
			}
			seen[h.ResourceID] = true
		}
	}
}

// asksFor reports whether a container requests a resource, or "claim:NAME[/REQUEST]".
func asksFor(r *corev1.ResourceRequirements, name corev1.ResourceName) bool {
	if claim, ok := strings.CutPrefix(string(name), "claim:"); ok {
		return slices.ContainsFunc(r.Claims, func(c corev1.ResourceClaim) bool {
			return claim == c.Name && c.Request == "" || c.Request != "" && claim == c.Name+"/"+c.Request
		})
	}
	_, found := r.Requests[name]
	return found
}

// claimStatuses validates the claims that were created for the pod.
func claimStatuses(s *corev1.PodStatus, spec *corev1.PodSpec, e rules.Errors) {
	seen := map[string]bool{}
	for i, c := range s.ResourceClaimStatuses {
		item := e.Field("resourceClaimStatuses").Item(i)
		if !slices.ContainsFunc(spec.ResourceClaims, func(p corev1.PodResourceClaim) bool { return p.Name == c.Name }) {
			item.Field("name").Invalid(c.Name, "must be the name of a claim in the spec")
		}
		if seen[c.Name] {
			item.Field("name").Duplicate(c.Name)
		}
		seen[c.Name] = true
		if c.ResourceClaimName != nil {
			item.Name("resourceClaimName", *c.ResourceClaimName, rules.Subdomain)
		}
	}
	if s.ExtendedResourceClaimStatus != nil {
		extendedClaim(s.ExtendedResourceClaimStatus, spec, e.Field("extendedResourceClaimStatus"))
	}
	nodeClaims(s, spec, e.Field("nodeAllocatableResourceClaimStatuses"))
}

// extendedClaim validates the claim for extended resources.
func extendedClaim(s *corev1.PodExtendedResourceClaimStatus, spec *corev1.PodSpec, e rules.Errors) {
	if len(s.RequestMappings) == 0 {
		e.Field("requestMappings").Required("")
	}
	containers := map[string]*corev1.Container{}
	for c := range podspec.Containers(&corev1.PodSpec{InitContainers: spec.InitContainers, Containers: spec.Containers}) {
		containers[c.Name] = c
	}
	seen := map[corev1.ContainerExtendedResourceRequest]bool{}
	for i, m := range s.RequestMappings {
		item := e.Field("requestMappings").Item(i)
		if c := containers[m.ContainerName]; c == nil {
			item.Field("containerName").Invalid(m.ContainerName, "no such container")
		} else if _, found := c.Resources.Requests[corev1.ResourceName(m.ResourceName)]; !found {
			item.Field("resourceName").Invalid(m.ResourceName, "the container does not ask for it")
		}
		e.DNSLabel("requestName", m.RequestName)
		if seen[m] {
			item.Field("containerName").Duplicate(m.ContainerName)
			item.Field("resourceName").Duplicate(m.ResourceName)
			item.Field("requestName").Duplicate(m.RequestName)
		}
		seen[m] = true
	}
	if e.Present("resourceClaimName", s.ResourceClaimName) {
		e.Name("resourceClaimName", s.ResourceClaimName, rules.Subdomain)
	}
}

// podIPs validates the addresses of a pod and its node: one per family, and non-canonical forms only if they are stored
// already.
func podIPs(s, before *corev1.PodStatus, e rules.Errors) {
	list := func(name string, ips, old []string) {
		for i, ip := range ips {
			e.Field(name).Item(i).IP(ip, old)
		}
		e.Field(name).OnePerFamily("IP", "failed to check for dual stack", ips, netutils.IsDualStackIPStrings)
	}
	ips := func(list []corev1.PodIP) (out []string) {
		for _, ip := range list {
			out = append(out, ip.IP)
		}
		return out
	}
	hostIPs := func(list []corev1.HostIP) (out []string) {
		for _, ip := range list {
			out = append(out, ip.IP)
		}
		return out
	}
	list("podIPs", ips(s.PodIPs), ips(before.PodIPs))
	list("hostIPs", hostIPs(s.HostIPs), hostIPs(before.HostIPs))
	if len(s.HostIPs) > 0 && s.HostIPs[0].IP != s.HostIP {
		e.Field("hostIPs").Item(0).Field("ip").Invalid(s.HostIPs[0].IP, "must equal hostIP")
	}
}

func warnPodStatus(_ context.Context, p, _ *corev1.Pod) []string {
	var out []string
	for i, ip := range p.Status.PodIPs {
		out = append(out, rules.WarnIP(field.NewPath("status", "podIPs").Index(i).Child("ip"), ip.IP)...)
	}
	for i, ip := range p.Status.HostIPs {
		out = append(out, rules.WarnIP(field.NewPath("status", "hostIPs").Index(i).Child("ip"), ip.IP)...)
	}
	return out
}
