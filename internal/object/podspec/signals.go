package podspec

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// stopSignal validates the stop signal of a container, which depends on the operating system.
func (v *validator) stopSignal(s corev1.Signal, e rules.Errors) {
	switch os := v.spec.OS; {
	case os == nil:
		e.Field("stopSignal").Forbidden("may not be set for containers with empty `spec.os.name`")
	case os.Name == corev1.Windows:
		rules.OneOf(e, "stopSignal", s, []corev1.Signal{corev1.SIGKILL, corev1.SIGTERM})
	case os.Name == corev1.Linux && !isLinuxSignal(string(s)):
		rules.OneOf(e, "stopSignal", s, []corev1.Signal{corev1.SIGTERM, corev1.SIGINT, corev1.SIGQUIT, corev1.SIGHUP})
	}
}

const linuxSignals = " ABRT ALRM BUS CHLD CLD CONT FPE HUP ILL INT IO IOT KILL PIPE POLL PROF PWR QUIT SEGV STKFLT STOP SYS " +
	"TERM TRAP TSTP TTIN TTOU URG USR1 USR2 VTALRM WINCH XCPU XFSZ RTMIN RTMAX "

func isLinuxSignal(s string) bool {
	name, ok := strings.CutPrefix(s, "SIG")
	if !ok || name == "" || strings.Contains(name, " ") {
		return false
	}
	if strings.Contains(linuxSignals, " "+name+" ") {
		return true
	}
	if n, ok := strings.CutPrefix(name, "RTMIN+"); ok {
		return isOffset(n, 15)
	}
	n, ok := strings.CutPrefix(name, "RTMAX-")
	return ok && isOffset(n, 14)
}

func isOffset(s string, most int) bool {
	n, err := strconv.Atoi(s)
	return err == nil && 1 <= n && n <= most && s == strconv.Itoa(n)
}
