package podspec

import (
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

var (
	pullPolicies        = []corev1.PullPolicy{corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever}
	terminationPolicies = []corev1.TerminationMessagePolicy{
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError,
	}
	resizeResources          = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
	resizePolicies           = []corev1.ResourceResizeRestartPolicy{corev1.NotRequired, corev1.RestartContainer}
	containerRestartPolicies = []corev1.ContainerRestartPolicy{
		corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure,
	}
	restartRuleActions = []corev1.ContainerRestartRuleAction{
		corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers,
	}
	exitCodeOperators = []corev1.ContainerRestartRuleOnExitCodesOperator{
		corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn,
	}
)

func (v *validator) containers(e rules.Errors) {
	if len(v.spec.Containers) == 0 {
		e.Required("")
		return
	}
	names := make(map[string]bool, len(v.spec.Containers))
	ports := map[hostPort]bool{}
	for i := range v.spec.Containers {
		c, item := &v.spec.Containers[i], e.Item(i)
		v.container(c, item)
		if names[c.Name] {
			item.Field("name").Duplicate(c.Name)
		}
		names[c.Name] = true
		v.running(c, item)
		v.restartRules(c, false, item)
		hostPorts(c, ports, item)
	}
}

func (v *validator) initContainers(e rules.Errors) {
	if len(v.spec.InitContainers) == 0 {
		return
	}
	names := map[string]bool{}
	for i := range v.spec.Containers {
		names[v.spec.Containers[i].Name] = true
	}
	for i := range v.spec.InitContainers {
		c, item := &v.spec.InitContainers[i], e.Item(i)
		v.container(c, item)
		v.restartRules(c, true, item)
		if names[c.Name] {
			item.Field("name").Duplicate(c.Name)
		}
		if c.Name != "" {
			names[c.Name] = true
		}
		hostPorts(c, map[hostPort]bool{}, e.Item(0)) // separate maps: init containers run one after the other
		if IsSidecar(c) {
			v.running(c, item)
			continue
		}
		forbidRunning(c, "must not be set to 'RestartContainer' for non-sidecar initContainers", item)
		if v.AllowRestartOnResizeInInit {
			continue
		}
		for j, p := range c.ResizePolicy {
			if p.RestartPolicy == corev1.RestartContainer {
				item.Field("resizePolicy").Item(j).Field("restartPolicy").Invalid(p.RestartPolicy, "must not be set to 'RestartContainer' for non-sidecar initContainers")
			}
		}
	}
}

// ephemeralContainers validates ephemeral containers. They are for debugging a running pod, and cannot have resources,
// probes or lifecycle hooks.
func (v *validator) ephemeralContainers(e rules.Errors) {
	if len(v.spec.EphemeralContainers) == 0 {
		return
	}
	targets := map[string]bool{}
	for i := range v.spec.Containers {
		targets[v.spec.Containers[i].Name] = true
	}
	for i := range v.spec.InitContainers {
		targets[v.spec.InitContainers[i].Name] = true
	}
	names := map[string]bool{}
	for i := range v.spec.EphemeralContainers {
		ec, item := &v.spec.EphemeralContainers[i], e.Item(i)
		c := (*corev1.Container)(&ec.EphemeralContainerCommon)
		v.container(c, item)
		imageSpace(c, item)
		if targets[c.Name] || names[c.Name] {
			item.Field("name").Duplicate(c.Name)
		}
		names[c.Name] = true
		if t := ec.TargetContainerName; t != "" && !targets[t] {
			item.Field("targetContainerName").NotFound(t)
		}
		const why = "cannot be set for an Ephemeral Container"
		forbidRunning(c, why, item)
		for _, f := range []struct {
			name string
			set  bool
		}{
			{"ports", c.Ports != nil},
			{"resources", !reflect.DeepEqual(c.Resources, corev1.ResourceRequirements{})},
			{"resizePolicy", c.ResizePolicy != nil},
			{"restartPolicy", c.RestartPolicy != nil},
			{"restartPolicyRules", c.RestartPolicyRules != nil},
		} {
			if f.set {
				item.Field(f.name).Forbidden(why)
			}
		}
		for j, m := range c.VolumeMounts {
			if m.SubPath != "" {
				item.Field("volumeMounts").Item(j).Field("subPath").Forbidden(why)
			}
			if m.SubPathExpr != "" {
				item.Field("volumeMounts").Item(j).Field("subPathExpr").Forbidden(why)
			}
		}
	}
}

// forbidRunning rejects the fields that only long-running containers may have.
func forbidRunning(c *corev1.Container, why string, e rules.Errors) {
	for _, f := range [...]struct {
		name string
		set  bool
	}{
		{"lifecycle", c.Lifecycle != nil},
		{"livenessProbe", c.LivenessProbe != nil},
		{"readinessProbe", c.ReadinessProbe != nil},
		{"startupProbe", c.StartupProbe != nil},
	} {
		if f.set {
			e.Field(f.name).Forbidden(why)
		}
	}
}

// container validates the fields of every kind of container.
func (v *validator) container(c *corev1.Container, e rules.Errors) {
	if e.Present("name", c.Name) {
		e.DNSLabel("name", c.Name)
	}
	e.Present("image", c.Image)
	rules.RequiredOneOf(e, "terminationMessagePolicy", c.TerminationMessagePolicy, terminationPolicies)
	rules.RequiredOneOf(e, "imagePullPolicy", c.ImagePullPolicy, pullPolicies)
	if len(c.Ports) > 0 {
		containerPorts(c.Ports, e.Field("ports"))
	}
	if len(c.Env) > 0 {
		env(c.Env, e.Field("env"))
	}
	if len(c.EnvFrom) > 0 {
		envFrom(c.EnvFrom, e.Field("envFrom"))
	}
	if len(c.VolumeMounts) > 0 {
		v.volumeMounts(c, e.Field("volumeMounts"))
	}
	if len(c.VolumeDevices) > 0 {
		v.volumeDevices(c, e.Field("volumeDevices"))
	}
	v.resources(&c.Resources, rules.Errors.ContainerResourceName, e.Field("resources"))
	if len(c.ResizePolicy) > 0 {
		v.resizePolicy(c.ResizePolicy, e.Field("resizePolicy"))
	}
	if c.SecurityContext != nil {
		v.securityContext(c.SecurityContext, e.Field("securityContext"))
	}
}

// ValidateImages rejects images with leading or trailing space. Templates may have them, because some are completed by
// other programs.
func ValidateImages(containers []corev1.Container, path *field.Path) field.ErrorList {
	e := rules.At(path)
	for i := range containers {
		imageSpace(&containers[i], e.Item(i))
	}
	return e.List()
}

func imageSpace(c *corev1.Container, e rules.Errors) {
	if c.Image != strings.TrimSpace(c.Image) {
		e.Field("image").Invalid(c.Image, "must not have leading or trailing whitespace")
	}
}

func containerPorts(ports []corev1.ContainerPort, e rules.Errors) {
	names := map[string]bool{}
	for i, p := range ports {
		item := e.Item(i)
		if p.Name != "" {
			if m := validation.IsValidPortName(p.Name); len(m) > 0 {
				item.Field("name").Messages(p.Name, m)
			} else if names[p.Name] {
				item.Field("name").Duplicate(p.Name)
			}
			names[p.Name] = true
		}
		if p.ContainerPort == 0 {
			item.Field("containerPort").Required("")
		} else {
			item.Port("containerPort", p.ContainerPort)
		}
		if p.HostPort != 0 {
			item.Port("hostPort", p.HostPort)
		}
		rules.RequiredOneOf(item, "protocol", p.Protocol, rules.Protocols)
	}
}

// hostPort is a port that a container occupies on its node.
type hostPort struct {
	protocol corev1.Protocol
	ip       string
	port     int32
}

func hostPorts(c *corev1.Container, taken map[hostPort]bool, e rules.Errors) {
	for i, p := range c.Ports {
		if p.HostPort == 0 {
			continue
		}
		h := hostPort{p.Protocol, p.HostIP, p.HostPort}
		if taken[h] {
			e.Field("ports").Item(i).Field("hostPort").Duplicate(fmt.Sprintf("%s/%s/%d", h.protocol, h.ip, h.port))
		}
		taken[h] = true
	}
}

func (v *validator) resizePolicy(list []corev1.ContainerResizePolicy, e rules.Errors) {
	seen := map[corev1.ResourceName]bool{}
	for i, p := range list {
		if seen[p.ResourceName] {
			e.Item(i).Duplicate(p.ResourceName)
		}
		seen[p.ResourceName] = true
		requiredOneOfHere(e, p.ResourceName, resizeResources)
		requiredOneOfHere(e, p.RestartPolicy, resizePolicies)
		if v.spec.RestartPolicy == corev1.RestartPolicyNever && p.RestartPolicy != corev1.NotRequired {
			e.Invalid(p.RestartPolicy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")
		}
	}
}

// requiredOneOfHere is rules.RequiredOneOf for the value itself.
func requiredOneOfHere[T ~string](e rules.Errors, value T, allowed []T) {
	for _, a := range allowed {
		if value == a {
			return
		}
	}
	if value == "" {
		e.Required("")
		return
	}
	e.AddError(field.NotSupported(e.Path(), value, allowed))
}

// restartRules validates a container's restart policy and restart rules.
func (v *validator) restartRules(c *corev1.Container, init bool, e rules.Errors) {
	actions := restartRuleActions
	if !v.AllowRestartAll && !v.Gates.Enabled(features.RestartAllContainersOnContainerExits) {
		if init && IsSidecar(c) {
			if len(c.RestartPolicyRules) > 0 {
				e.Field("restartPolicyRules").Forbidden("restartPolicyRules are not allowed for init containers with restart policy Always")
			}
			return
		}
		actions = restartRuleActions[:1]
	}
	if c.RestartPolicy != nil {
		rules.OneOf(e, "restartPolicy", *c.RestartPolicy, containerRestartPolicies)
	} else if len(c.RestartPolicyRules) > 0 {
		e.Field("restartPolicy").Required("must specify restartPolicy when restart rules are used")
		if init {
			return
		}
	}
	if len(c.RestartPolicyRules) > 20 {
		e.AddError(field.TooMany(e.Path().Child("restartPolicyRules"), len(c.RestartPolicyRules), 20))
	}
	for i, r := range c.RestartPolicyRules {
		item := e.Field("restartPolicyRules").Item(i)
		rules.OneOf(item, "action", r.Action, actions)
		codes := item.Field("exitCodes")
		if r.ExitCodes == nil {
			codes.Required("must be specified")
			continue
		}
		rules.OneOf(codes, "operator", r.ExitCodes.Operator, exitCodeOperators)
		if n := len(r.ExitCodes.Values); n > 255 {
			e.AddError(field.TooMany(codes.Path().Child("values"), n, 255))
		}
	}
}
