package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

var (
	urlSchemes    = []corev1.URIScheme{corev1.URISchemeHTTP, corev1.URISchemeHTTPS}
	httpProtocols = []corev1.HTTPProtocol{corev1.HTTPProtocolHTTP1, corev1.HTTPProtocolHTTP2}
	grpcModes     = []corev1.GRPCProbeMode{corev1.GRPCProbeModePlaintext, corev1.GRPCProbeModeTLS}
)

// running validates probes and lifecycle hooks.
func (v *validator) running(c *corev1.Container, e rules.Errors) {
	if l := c.Lifecycle; l != nil {
		e := e.Field("lifecycle")
		if l.PostStart != nil {
			v.lifecycleHandler(l.PostStart, e.Field("postStart"))
		}
		if l.PreStop != nil {
			v.lifecycleHandler(l.PreStop, e.Field("preStop"))
		}
		if l.StopSignal != nil {
			v.stopSignal(*l.StopSignal, e)
		}
	}
	if p := c.LivenessProbe; p != nil {
		probe(p, true, e.Field("livenessProbe"))
	}
	if p := c.StartupProbe; p != nil {
		probe(p, true, e.Field("startupProbe"))
	}
	if p := c.ReadinessProbe; p != nil {
		e := e.Field("readinessProbe")
		probe(p, false, e)
		if p.TerminationGracePeriodSeconds != nil {
			e.Field("terminationGracePeriodSeconds").Invalid(*p.TerminationGracePeriodSeconds, "must not be set for readinessProbes")
		}
	}
}

// probe validates a probe. If its failure ends the container, the success threshold must be 1.
func probe(p *corev1.Probe, ends bool, e rules.Errors) {
	u := &rules.Union{Errors: e, What: "handler type"}
	rules.Member(u, p.Exec, "exec", execAction)
	rules.Member(u, p.HTTPGet, "httpGet", httpGet)
	rules.Member(u, p.TCPSocket, "tcpSocket", tcpSocket)
	rules.Member(u, p.GRPC, "grpc", grpc)
	if u.Count() == 0 {
		e.Required("must specify a handler type")
	}
	e.Nonnegative("initialDelaySeconds", int64(p.InitialDelaySeconds))
	e.Nonnegative("timeoutSeconds", int64(p.TimeoutSeconds))
	e.Nonnegative("periodSeconds", int64(p.PeriodSeconds))
	e.Nonnegative("successThreshold", int64(p.SuccessThreshold))
	e.Nonnegative("failureThreshold", int64(p.FailureThreshold))
	if s := p.TerminationGracePeriodSeconds; s != nil && *s <= 0 {
		e.Field("terminationGracePeriodSeconds").Invalid(*s, "must be greater than 0")
	}
	if ends && p.SuccessThreshold != 1 {
		e.Field("successThreshold").Invalid(p.SuccessThreshold, "must be 1")
	}
}

func (v *validator) lifecycleHandler(h *corev1.LifecycleHandler, e rules.Errors) {
	u := &rules.Union{Errors: e, What: "handler type"}
	rules.Member(u, h.Exec, "exec", execAction)
	rules.Member(u, h.HTTPGet, "httpGet", httpGet)
	rules.Member(u, h.TCPSocket, "tcpSocket", tcpSocket)
	rules.Member(u, h.Sleep, "sleep", func(a *corev1.SleepAction, e rules.Errors) {
		if grace := v.spec.TerminationGracePeriodSeconds; grace != nil && (a.Seconds < 0 || a.Seconds > *grace) {
			e.Invalid(a.Seconds, fmt.Sprintf("must be between 0 and terminationGracePeriodSeconds (%d)", *grace))
		}
	})
	if u.Count() == 0 {
		e.Required("must specify a handler type")
	}
}

func execAction(a *corev1.ExecAction, e rules.Errors) {
	if len(a.Command) == 0 {
		e.Field("command").Required("")
	}
}

func tcpSocket(a *corev1.TCPSocketAction, e rules.Errors) { e.PortOrName("port", a.Port) }

func grpc(a *corev1.GRPCAction, e rules.Errors) {
	e.Port("port", a.Port)
	if a.Mode != nil {
		rules.OneOf(e, "mode", *a.Mode, grpcModes)
	}
}

func httpGet(a *corev1.HTTPGetAction, e rules.Errors) {
	e.Present("path", a.Path)
	e.PortOrName("port", a.Port)
	rules.OneOf(e, "scheme", a.Scheme, urlSchemes)
	for _, h := range a.HTTPHeaders {
		if m := validation.IsHTTPHeaderName(h.Name); len(m) > 0 {
			e.Field("httpHeaders").Messages(h.Name, m)
		}
	}
	if p := a.Protocol; p != nil {
		httpProtocol(*p, a, e)
	}
}

// httpProtocol validates the protocol of a probe: HTTP/2 is without TLS, to the pod itself.
func httpProtocol(p corev1.HTTPProtocol, a *corev1.HTTPGetAction, e rules.Errors) {
	switch {
	case p != corev1.HTTPProtocolHTTP2:
		rules.OneOf(e, "protocol", p, httpProtocols)
	case a.Scheme != corev1.URISchemeHTTP:
		e.Field("protocol").Invalid(p, "is only supported with HTTP (H2C)")
	case a.Host != "":
		e.Field("host").Invalid(a.Host, `must be empty when `+"`protocol`"+` is "HTTP2"`)
	}
}
