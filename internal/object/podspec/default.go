package podspec

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// DefaultTemplate sets the defaults of a pod template.
func DefaultTemplate(t *corev1.PodTemplateSpec) {
	t.Annotations = dropLegacyAnnotations(t.Annotations)
	Default(&t.Spec)
}

// Default sets the defaults of a pod spec in any kind.
func Default(spec *corev1.PodSpec) {
	rules.Default(&spec.DNSPolicy, corev1.DNSClusterFirst)
	rules.Default(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	rules.DefaultPtr(&spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	rules.Default(&spec.SchedulerName, corev1.DefaultSchedulerName)
	if spec.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	// serviceAccount is the old name of serviceAccountName; both are kept and the new one takes precedence.
	rules.Default(&spec.ServiceAccountName, spec.DeprecatedServiceAccount)
	spec.DeprecatedServiceAccount = spec.ServiceAccountName

	for i := range spec.Volumes {
		defaultVolume(&spec.Volumes[i].VolumeSource)
	}
	for c := range Containers(spec) {
		defaultContainer(c)
	}
	rules.DefaultResources(spec.Overhead)
	if r := spec.Resources; r != nil {
		rules.DefaultResources(r.Limits, r.Requests)
	}
}

// DefaultPod sets the defaults of a pod: those of its spec, and those that apply only to pods, because in a template a
// controller's owner may expect the fields to stay empty.
func (p Policy) DefaultPod(pod *corev1.Pod) {
	pod.Annotations = dropLegacyAnnotations(pod.Annotations)
	spec := &pod.Spec
	for i := range spec.Containers {
		defaultRequests(&spec.Containers[i].Resources)
	}
	for i := range spec.InitContainers {
		defaultRequests(&spec.InitContainers[i].Resources)
	}
	if spec.Resources != nil && !p.Gates.Enabled(features.PodLevelResourcesFixDefaulting) {
		defaultPodResources(spec)
	}
	rules.DefaultPtr(&spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	if spec.HostNetwork {
		defaultHostPorts(spec.Containers)
		defaultHostPorts(spec.InitContainers)
	}
	if s := spec.TerminationGracePeriodSeconds; s != nil && *s < 0 {
		*s = 1
	}
	if p.Gates.Enabled(features.H2CContainerProbe) {
		defaultProtocols(spec)
	}
	Default(spec)
	defaultPodStatus(&pod.Status)
}

func defaultPodStatus(s *corev1.PodStatus) {
	// podIP and podIPs[0] are the same field for old and new clients; if they differ, podIP counts, for the sake of old
	// kubelets.
	if s.PodIP != "" && (len(s.PodIPs) == 0 || s.PodIPs[0].IP != s.PodIP) {
		s.PodIPs = []corev1.PodIP{{IP: s.PodIP}}
	}
	if len(s.PodIPs) > 0 {
		s.PodIP = s.PodIPs[0].IP
	}
	for _, list := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range list {
			rules.DefaultResources(list[i].AllocatedResources)
			if r := list[i].Resources; r != nil {
				rules.DefaultResources(r.Limits, r.Requests)
			}
		}
	}
	rules.DefaultResources(s.AllocatedResources)
	if r := s.Resources; r != nil {
		rules.DefaultResources(r.Limits, r.Requests)
	}
}

// defaultRequests sets a missing request to the limit.
func defaultRequests(r *corev1.ResourceRequirements) {
	if r.Limits == nil {
		return
	}
	if r.Requests == nil {
		r.Requests = make(corev1.ResourceList, len(r.Limits))
	}
	fillResources(r.Requests, r.Limits, nil)
}

// fillResources copies the entries of from that to lacks and want accepts.
func fillResources(to, from corev1.ResourceList, want func(corev1.ResourceName) bool) {
	for name, q := range from {
		if _, found := to[name]; !found && (want == nil || want(name)) {
			to[name] = q.DeepCopy()
		}
	}
}

func defaultHostPorts(containers []corev1.Container) {
	for i := range containers {
		for j := range containers[i].Ports {
			p := &containers[i].Ports[j]
			rules.Default(&p.HostPort, p.ContainerPort)
		}
	}
}

// defaultProtocols sets the protocol of HTTP probes and hooks.
func defaultProtocols(spec *corev1.PodSpec) {
	set := func(a *corev1.HTTPGetAction) {
		if a != nil {
			rules.DefaultPtr(&a.Protocol, corev1.HTTPProtocolHTTP1)
		}
	}
	for c := range Containers(spec) {
		for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
			if p != nil {
				set(p.HTTPGet)
			}
		}
		if l := c.Lifecycle; l != nil {
			for _, h := range []*corev1.LifecycleHandler{l.PostStart, l.PreStop} {
				if h != nil {
					set(h.HTTPGet)
				}
			}
		}
	}
}

func defaultContainer(c *corev1.Container) {
	if c.ImagePullPolicy == "" {
		c.ImagePullPolicy = pullPolicy(c.Image)
	}
	rules.Default(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	rules.Default(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		rules.Default(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		from := c.Env[i].ValueFrom
		if from == nil {
			continue
		}
		defaultFieldRef(from.FieldRef)
		if from.FileKeyRef != nil {
			rules.DefaultPtr(&from.FileKeyRef.Optional, false)
		}
	}
	rules.DefaultResources(c.Resources.Limits, c.Resources.Requests)
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		defaultProbe(p)
	}
	if l := c.Lifecycle; l != nil {
		for _, h := range []*corev1.LifecycleHandler{l.PostStart, l.PreStop} {
			if h != nil {
				defaultHTTPGet(h.HTTPGet)
			}
		}
	}
}

func pullPolicy(image string) corev1.PullPolicy {
	if pullPolicyTag(image) == "latest" {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

func defaultFieldRef(ref *corev1.ObjectFieldSelector) {
	if ref != nil {
		rules.Default(&ref.APIVersion, "v1")
	}
}

func defaultProbe(p *corev1.Probe) {
	if p == nil {
		return
	}
	rules.Default(&p.TimeoutSeconds, 1)
	rules.Default(&p.PeriodSeconds, 10)
	rules.Default(&p.SuccessThreshold, 1)
	rules.Default(&p.FailureThreshold, 3)
	defaultHTTPGet(p.HTTPGet)
	if p.GRPC != nil {
		rules.DefaultPtr(&p.GRPC.Service, "")
	}
}

func defaultHTTPGet(a *corev1.HTTPGetAction) {
	if a != nil {
		rules.Default(&a.Path, "/")
		rules.Default(&a.Scheme, corev1.URISchemeHTTP)
	}
}

func defaultVolume(v *corev1.VolumeSource) {
	if *v == (corev1.VolumeSource{}) {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	switch {
	case v.EmptyDir != nil, v.PersistentVolumeClaim != nil:
		// The most frequent sources have no defaults. A volume with two sources fails validation, so its defaults do
		// not matter.
	case v.Projected != nil:
		defaultProjected(v.Projected)
	case v.ConfigMap != nil:
		rules.DefaultPtr(&v.ConfigMap.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	case v.Secret != nil:
		rules.DefaultPtr(&v.Secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	case v.DownwardAPI != nil:
		rules.DefaultPtr(&v.DownwardAPI.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
		defaultDownwardItems(v.DownwardAPI.Items)
	case v.HostPath != nil:
		rules.DefaultPtr(&v.HostPath.Type, corev1.HostPathUnset)
	case v.Image != nil:
		if v.Image.PullPolicy == "" {
			v.Image.PullPolicy = pullPolicy(v.Image.Reference)
		}
	case v.Ephemeral != nil:
		if t := v.Ephemeral.VolumeClaimTemplate; t != nil {
			rules.DefaultClaimSpec(&t.Spec)
		}
	case v.ISCSI != nil:
		rules.Default(&v.ISCSI.ISCSIInterface, "default")
	case v.RBD != nil:
		rules.DefaultRBD(&v.RBD.RBDPool, &v.RBD.RadosUser, &v.RBD.Keyring)
	case v.AzureDisk != nil:
		rules.DefaultAzureDisk(v.AzureDisk)
	case v.ScaleIO != nil:
		rules.DefaultScaleIO(&v.ScaleIO.StorageMode, &v.ScaleIO.FSType)
	}
}

func defaultProjected(v *corev1.ProjectedVolumeSource) {
	rules.DefaultPtr(&v.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
	for i := range v.Sources {
		s := &v.Sources[i]
		if s.DownwardAPI != nil {
			defaultDownwardItems(s.DownwardAPI.Items)
		}
		if s.ServiceAccountToken != nil {
			const hour = 60 * 60
			rules.DefaultPtr(&s.ServiceAccountToken.ExpirationSeconds, hour)
		}
	}
}

func defaultDownwardItems(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		defaultFieldRef(items[i].FieldRef)
	}
}

// legacyAnnotations contained init containers before they became a field.
var legacyAnnotations = []string{
	"pod.beta.kubernetes.io/init-containers",
	"pod.alpha.kubernetes.io/init-containers",
	"pod.beta.kubernetes.io/init-container-statuses",
	"pod.alpha.kubernetes.io/init-container-statuses",
}

func dropLegacyAnnotations(annotations map[string]string) map[string]string {
	if len(annotations) == 0 {
		return annotations
	}
	for _, key := range legacyAnnotations {
		delete(annotations, key)
	}
	return annotations
}
