package podspec

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

var (
	fsGroupPolicies = []corev1.PodFSGroupChangePolicy{corev1.FSGroupChangeAlways, corev1.FSGroupChangeOnRootMismatch}
	groupsPolicies  = []corev1.SupplementalGroupsPolicy{corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict}
	seLinuxPolicies = []corev1.PodSELinuxChangePolicy{corev1.SELinuxChangePolicyRecursive, corev1.SELinuxChangePolicyMountOption}
	procMounts      = []corev1.ProcMountType{corev1.DefaultProcMount, corev1.UnmaskedProcMount}
	seccompTypes    = []corev1.SeccompProfileType{
		corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined,
	}
)

func isPrivileged(c *corev1.SecurityContext) bool {
	return c != nil && c.Privileged != nil && *c.Privileged
}

// podSecurity validates the security context of a pod.
func (v *validator) podSecurity(e rules.Errors) {
	if s := v.spec.ShareProcessNamespace; s != nil && *s && v.spec.HostPID {
		e.Field("shareProcessNamespace").Invalid(true, "ShareProcessNamespace and HostPID cannot both be enabled")
	}
	if v.spec.SecurityContext != nil {
		v.podSecurityContext(v.spec.SecurityContext, e.Field("securityContext"))
	}
	if ownUsers(v.spec) {
		v.userNamespace(e)
	}
	v.hostProcess(e)
}

func (v *validator) podSecurityContext(c *corev1.PodSecurityContext, e rules.Errors) {
	if c.FSGroup != nil {
		groupID("fsGroup", *c.FSGroup, e)
	}
	users(c.RunAsUser, c.RunAsGroup, e)
	for i, g := range c.SupplementalGroups {
		e.Field("supplementalGroups").Item(i).Messages(g, validation.IsValidGroupID(g))
	}
	if len(c.Sysctls) > 0 {
		v.sysctls(c.Sysctls, e.Field("sysctls"))
	}
	if c.FSGroupChangePolicy != nil {
		rules.OneOf(e, "fsGroupChangePolicy", *c.FSGroupChangePolicy, fsGroupPolicies)
	}
	if c.SeccompProfile != nil {
		seccompProfile(c.SeccompProfile, e.Field("seccompProfile"))
	}
	if c.WindowsOptions != nil {
		windowsOptions(c.WindowsOptions, e.Field("windowsOptions"))
	}
	if c.AppArmorProfile != nil {
		appArmorProfile(c.AppArmorProfile, e.Field("appArmorProfile"))
	}
	if c.SupplementalGroupsPolicy != nil {
		rules.OneOf(e, "supplementalGroupsPolicy", *c.SupplementalGroupsPolicy, groupsPolicies)
	}
	if p := c.SELinuxChangePolicy; p != nil {
		allowed := seLinuxPolicies
		if !v.AllowAnySELinuxChangePolicy && !v.Gates.Enabled(features.SELinuxMount) {
			allowed = seLinuxPolicies[:1]
		}
		rules.OneOf(e, "seLinuxChangePolicy", *p, allowed)
	}
}

func users(user, group *int64, e rules.Errors) {
	if user != nil {
		if m := validation.IsValidUserID(*user); len(m) > 0 {
			e.Field("runAsUser").Messages(*user, m)
		}
	}
	if group != nil {
		groupID("runAsGroup", *group, e)
	}
}

func groupID(name string, id int64, e rules.Errors) {
	if m := validation.IsValidGroupID(id); len(m) > 0 {
		e.Field(name).Messages(id, m)
	}
}

// userNamespace rejects fields that a pod with its own user namespace may not have.
func (v *validator) userNamespace(e rules.Errors) {
	const why = "when `hostUsers` is false"
	s := v.spec
	if s.HostNetwork && !v.AllowHostNetworkWithUserNamespaces && !v.Gates.Enabled(features.UserNamespacesHostNetworkSupport) {
		e.Field("hostNetwork").Forbidden(why)
	}
	if s.HostPID {
		e.Field("HostPID").Forbidden(why)
	}
	if s.HostIPC {
		e.Field("HostIPC").Forbidden(why)
	}
	if v.AllowDevicesWithUserNamespaces {
		return
	}
	for path, c := range ContainersAt(s, e.Path()) {
		if len(c.VolumeDevices) > 0 {
			e.Elsewhere(path.Child("volumeDevices")).Forbidden(why)
		}
	}
}

// securityContext validates the security context of a container.
func (v *validator) securityContext(c *corev1.SecurityContext, e rules.Errors) {
	if isPrivileged(c) && v.ForbidPrivileged {
		e.Field("privileged").Forbidden("disallowed by cluster policy")
	}
	users(c.RunAsUser, c.RunAsGroup, e)
	if p := c.ProcMount; p != nil {
		rules.OneOf(e, "procMount", *p, procMounts)
		if *p == corev1.UnmaskedProcMount && !ownUsers(v.spec) {
			e.Field("procMount").Invalid(*p, "Unmasked needs hostUsers false")
		}
	}
	if c.SeccompProfile != nil {
		seccompProfile(c.SeccompProfile, e.Field("seccompProfile"))
	}
	if c.AllowPrivilegeEscalation != nil && !*c.AllowPrivilegeEscalation {
		if isPrivileged(c) {
			e.Invalid("", "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
		}
		if c.Capabilities != nil {
			for _, add := range c.Capabilities.Add {
				if add == "CAP_SYS_ADMIN" {
					e.Invalid("", "allowPrivilegeEscalation false excludes CAP_SYS_ADMIN")
				}
			}
		}
	}
	if c.WindowsOptions != nil {
		windowsOptions(c.WindowsOptions, e.Field("windowsOptions"))
	}
	if c.AppArmorProfile != nil {
		appArmorProfile(c.AppArmorProfile, e.Field("appArmorProfile"))
	}
}

func seccompProfile(p *corev1.SeccompProfile, e rules.Errors) {
	rules.RequiredOneOf(e, "type", p.Type, seccompTypes)
	switch {
	case p.Type != corev1.SeccompProfileTypeLocalhost:
		if p.LocalhostProfile != nil {
			e.Field("localhostProfile").Invalid(*p.LocalhostProfile, "can only be set when seccomp type is Localhost")
		}
	case p.LocalhostProfile == nil:
		e.Field("localhostProfile").Required("must be set when seccomp type is Localhost")
	default:
		e.RelativePath("localhostProfile", *p.LocalhostProfile)
	}
}

// sysctlName matches one or more words joined by dots or slashes.
var sysctlName = regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`)

func (v *validator) sysctls(list []corev1.Sysctl, e rules.Errors) {
	seen := map[string]bool{}
	for i, s := range list {
		switch name := e.Item(i).Field("name"); {
		case s.Name == "":
			name.Required("")
		case len(s.Name) > 253 || !sysctlName.MatchString(s.Name):
			name.Invalid(s.Name, "must be at most 253 characters of words joined by '.' or '/'")
		case seen[s.Name]:
			name.Duplicate(s.Name)
		}
		seen[s.Name] = true
		if v.AllowSysctlsOfHost {
			continue
		}
		if host := sysctlOfHost(v.spec, s.Name); host != "" {
			e.Item(i).Field("name").Invalid(s.Name, "may not be specified when '"+host+"' is true")
		}
	}
}

// ipcSysctls are sysctls of the IPC namespace without a common prefix.
var ipcSysctls = map[string]bool{
	"kernel.sem": true, "kernel.shmall": true, "kernel.shmmax": true, "kernel.shmmni": true, "kernel.shm_rmid_forced": true,
	"kernel.shm": true, "kernel.msgmax": true, "kernel.msgmnb": true, "kernel.msgmni": true, "kernel.msg": true,
}

// sysctlOfHost returns the field that makes a sysctl apply to the node instead of the pod; empty if none does.
func sysctlOfHost(spec *corev1.PodSpec, name string) string {
	name = dottedSysctl(name)
	name, _, _ = strings.Cut(name, "*")
	switch {
	case spec.HostNetwork && strings.HasPrefix(name, "net."):
		return "hostNetwork"
	case spec.HostIPC && (ipcSysctls[name] || strings.HasPrefix(name, "fs.mqueue.")):
		return "hostIPC"
	}
	return ""
}

// dottedSysctl returns the dotted form of a sysctl whose first separator is a slash; in such names, dots are part of
// the words.
func dottedSysctl(name string) string {
	i := strings.IndexAny(name, "./")
	if i < 0 || name[i] == '.' {
		return name
	}
	return strings.NewReplacer(".", "/", "/", ".").Replace(name)
}
