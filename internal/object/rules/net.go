package rules

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	netutils "k8s.io/utils/net"
)

// Protocols are the transport protocols of ports.
var Protocols = []corev1.Protocol{corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP}

// Port reports a field that is not a port number.
func (e Errors) Port(name string, port int32) {
	if port < 1 || port > 65535 {
		e.Field(name).Messages(port, validation.IsValidPortNum(int(port)))
	}
}

// ServicePort is Port for the service that a webhook or an APIService is reached by.
func (e Errors) ServicePort(port int32) {
	for _, m := range validation.IsValidPortNum(int(port)) {
		e.Field("port").Invalid(port, "port is not valid: "+m)
	}
}

// PortOrName reports a field that is neither a port's number nor its name.
func (e Errors) PortOrName(name string, port intstr.IntOrString) {
	if port.Type == intstr.Int {
		e.Port(name, port.IntVal)
		return
	}
	if m := validation.IsValidPortName(port.StrVal); len(m) > 0 {
		e.Field(name).Messages(port.StrVal, m)
	}
}

// IP reports a value that is not an IP address. Formerly valid forms (leading zeros, IPv4 in IPv6) are accepted if old
// contains them.
func (e Errors) IP(value string, old []string) {
	if len(validation.IsValidIPForLegacyField(nil, value, !e.sloppy, old)) > 0 { // seldom; only then it is worth a path
		e.Add(validation.IsValidIPForLegacyField(e.Path(), value, !e.sloppy, old))
	}
}

// CIDR is IP for address ranges.
func (e Errors) CIDR(value string, old []string) {
	if len(validation.IsValidCIDRForLegacyField(nil, value, !e.sloppy, old)) > 0 {
		e.Add(validation.IsValidCIDRForLegacyField(e.Path(), value, !e.sloppy, old))
	}
}

// EndpointIP reports an address that other hosts cannot send to.
func (e Errors) EndpointIP(value string) {
	ip := netutils.ParseIPSloppy(value)
	switch {
	case ip == nil:
		e.Invalid(value, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
	case ip.IsUnspecified():
		e.Invalid(value, "may not be unspecified ("+value+")")
	case ip.IsLoopback():
		e.Invalid(value, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
	case ip.IsLinkLocalUnicast():
		e.Invalid(value, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
	case ip.IsLinkLocalMulticast():
		e.Invalid(value, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
	}
}

// OnePerFamily reports lists with more than one address or range per family. The values must parse; failed begins what is said of
// those that do not.
func (e Errors) OnePerFamily(what, failed string, values []string, dualStack func([]string) (bool, error)) {
	if len(values) < 2 {
		return
	}
	dual, err := dualStack(values)
	if err != nil {
		e.AddError(internalError(e, fmt.Errorf("%s with error:%w", failed, err)))
	}
	if !dual || len(values) > 2 {
		e.Invalid(values, "may specify no more than one "+what+" for each IP family")
	}
}

// DNSPrefixWarning returns a warning about a name that becomes an invalid part of host names, or nil.
func DNSPrefixWarning(name, use string) []string {
	m := validation.IsDNS1123Label(name)
	if len(m) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("metadata.name: this is used in %s, which can result in surprising behavior; a DNS label is recommended: %v", use, m)}
}
