package podspec

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// operatingSystem checks that a pod with an OS field uses no features of another OS.
func (v *validator) operatingSystem(e rules.Errors) {
	os := v.spec.OS
	switch {
	case os == nil:
	case os.Name == "":
		e.Field("os").Field("name").Required("")
	case os.Name == corev1.Linux:
		v.linux(e)
	case os.Name == corev1.Windows:
		v.windows(e)
	default:
		e.AddError(field.NotSupported(e.Path().Child("os"), os.Name, []corev1.OSName{corev1.Linux, corev1.Windows}))
	}
}

func (v *validator) linux(e rules.Errors) {
	const why = "windows options cannot be set for a linux pod"
	if c := v.spec.SecurityContext; c != nil && c.WindowsOptions != nil {
		e.Field("securityContext").Field("windowsOptions").Forbidden(why)
	}
	for path, c := range ContainersAt(v.spec, e.Path()) {
		if c.SecurityContext != nil && c.SecurityContext.WindowsOptions != nil {
			e.Elsewhere(path.Child("securityContext", "windowsOptions")).Forbidden(why)
		}
	}
}

func (v *validator) windows(e rules.Errors) {
	s, c := v.spec, v.spec.SecurityContext
	if c == nil {
		c = &corev1.PodSecurityContext{}
	}
	notForWindows(e, map[string]bool{
		"hostUsers":             s.HostUsers != nil,
		"hostPID":               s.HostPID,
		"hostIPC":               s.HostIPC,
		"shareProcessNamespace": s.ShareProcessNamespace != nil,
	})
	notForWindows(e.Field("securityContext"), map[string]bool{
		"appArmorProfile":          c.AppArmorProfile != nil,
		"seLinuxOptions":           c.SELinuxOptions != nil,
		"seccompProfile":           c.SeccompProfile != nil,
		"fsGroup":                  c.FSGroup != nil,
		"fsGroupChangePolicy":      c.FSGroupChangePolicy != nil,
		"sysctls":                  len(c.Sysctls) > 0,
		"runAsUser":                c.RunAsUser != nil,
		"runAsGroup":               c.RunAsGroup != nil,
		"supplementalGroups":       c.SupplementalGroups != nil,
		"supplementalGroupsPolicy": c.SupplementalGroupsPolicy != nil,
		"seLinuxChangePolicy":      c.SELinuxChangePolicy != nil,
	})
	for path, container := range ContainersAt(s, e.Path()) {
		c := container.SecurityContext
		if c == nil {
			continue
		}
		notForWindows(e.Elsewhere(path.Child("securityContext")), map[string]bool{
			"appArmorProfile":          c.AppArmorProfile != nil,
			"seLinuxOptions":           c.SELinuxOptions != nil,
			"seccompProfile":           c.SeccompProfile != nil,
			"capabilities":             c.Capabilities != nil,
			"readOnlyRootFilesystem":   c.ReadOnlyRootFilesystem != nil,
			"privileged":               c.Privileged != nil,
			"allowPrivilegeEscalation": c.AllowPrivilegeEscalation != nil,
			"procMount":                c.ProcMount != nil,
			"runAsUser":                c.RunAsUser != nil,
			"runAsGroup":               c.RunAsGroup != nil,
		})
	}
}

func notForWindows(e rules.Errors, set map[string]bool) {
	for name, is := range set {
		if is {
			e.Field(name).Forbidden("cannot be set for a windows pod")
		}
	}
}

// hostProcess validates Windows HostProcess containers: all containers of a pod are, or none.
func (v *validator) hostProcess(e rules.Errors) {
	var pod *bool
	if c := v.spec.SecurityContext; c != nil && c.WindowsOptions != nil {
		pod = c.WindowsOptions.HostProcess
	}
	all, host := 0, 0
	for path, container := range ContainersAt(v.spec, e.Path()) {
		all++
		own := pod
		if c := container.SecurityContext; c != nil && c.WindowsOptions != nil && c.WindowsOptions.HostProcess != nil {
			own = c.WindowsOptions.HostProcess
			if pod != nil && *pod != *own {
				e.Elsewhere(path.Child("securityContext", "windowsOptions", "hostProcess")).Invalid(*own, "must equal the pod's")
			}
		}
		if own != nil && *own {
			host++
		}
	}
	if host == 0 {
		return
	}
	if host != all {
		e.Invalid("", "all containers must be host processes where one is")
	}
	if !v.spec.HostNetwork {
		e.Field("hostNetwork").Invalid(false, "must be true for host processes")
	}
	if v.ForbidPrivileged {
		e.Forbidden("hostProcess containers are disallowed by cluster policy")
	}
}

var (
	controlChar  = regexp.MustCompile(`[[:cntrl:]]`)
	netBIOSName  = regexp.MustCompile(`^[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}$`)
	windowsHost  = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$`)
	dotsAndSpace = regexp.MustCompile(`^[. ]+$`)
)

func windowsOptions(o *corev1.WindowsSecurityContextOptions, e rules.Errors) {
	const longestSpec = 64 * 1024
	if n := o.GMSACredentialSpecName; n != nil {
		if m := validation.IsDNS1123Subdomain(*n); len(m) > 0 {
			e.Field("gmsaCredentialSpecName").Messages(*n, m)
		}
	}
	if s := o.GMSACredentialSpec; s != nil && (*s == "" || len(*s) > longestSpec) {
		e.Field("gmsaCredentialSpec").Invalid("", "must have between 1 byte and 64 KiB")
	}
	if o.RunAsUserName != nil {
		if m := windowsUser(*o.RunAsUserName); m != "" {
			e.Field("runAsUserName").Invalid(*o.RunAsUserName, m)
		}
	}
}

// windowsUser returns the error in "[DOMAIN\]USER".
func windowsUser(name string) string {
	if name == "" || controlChar.MatchString(name) {
		return "must not be empty or have control characters"
	}
	domain, user, hasDomain := strings.Cut(name, `\`)
	if !hasDomain {
		domain, user = "", name
	}
	switch {
	case len(domain) > 255:
		return "must have a domain of at most 255 characters"
	case hasDomain && !netBIOSName.MatchString(domain) && !windowsHost.MatchString(domain):
		return "must have a NetBIOS or DNS name as its domain"
	case user == "" || len(user) > 104:
		return "must have a user of 1 to 104 characters"
	case dotsAndSpace.MatchString(user):
		return "must not be periods and spaces only"
	case strings.ContainsAny(user, `"/\:;|=,+*?<>@[]`):
		return `must not have any of "/\:;|=,+*?<>@[] in its user`
	}
	return ""
}
