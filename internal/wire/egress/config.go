package egress

import (
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
)

// read parses an EgressSelectorConfiguration of any version and validates it.
func read(path string) (*apiserver.EgressSelectorConfiguration, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("unable to read egress selector configuration from %q: %w", path, err)
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	obj, gvk, err := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder().Decode(data, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("failed to read egress selector config: %w", err)
	}
	c, ok := obj.(*apiserver.EgressSelectorConfiguration)
	if !ok {
		return nil, fmt.Errorf("failed to read egress selector config: unexpected config type: %v", gvk)
	}
	if errs := validate(c); len(errs) > 0 {
		return nil, fmt.Errorf("failed to validate egress selector configuration: %w", errs.ToAggregate())
	}
	return c, nil
}

// validate returns the errors in a configuration, in upstream's words and at upstream's paths.
func validate(c *apiserver.EgressSelectorConfiguration) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("service", "connection")
	for _, s := range c.EgressSelections {
		errs = append(errs, validateConnection(&s.Connection, at)...)
	}
	seen := map[Network]bool{}
	for i, s := range c.EgressSelections {
		n := networkOf(s.Name)
		if seen[n] {
			errs = append(errs, field.Duplicate(at.Index(i), n))
			continue
		}
		seen[n] = true
		if n != Cluster && n != ControlPlane && n != Etcd {
			errs = append(errs, field.NotSupported(at, n, []Network{Cluster, ControlPlane, Etcd}))
		}
	}
	return errs
}

// networkOf returns the network of a name, in any case.
func networkOf(name string) Network { return Network(strings.ToLower(name)) }

func validateConnection(c *apiserver.Connection, at *field.Path) field.ErrorList {
	t := c.Transport
	switch c.ProxyProtocol {
	case apiserver.ProtocolDirect:
		if t != nil {
			return field.ErrorList{field.Invalid(at.Child("transport"), "direct", "config must be absent for direct connect")}
		}
		return nil
	case apiserver.ProtocolHTTPConnect, apiserver.ProtocolGRPC:
	default:
		return field.ErrorList{field.NotSupported(at.Child("protocol"), c.ProxyProtocol,
			[]apiserver.ProtocolType{apiserver.ProtocolDirect, apiserver.ProtocolHTTPConnect, apiserver.ProtocolGRPC})}
	}
	isGRPC := c.ProxyProtocol == apiserver.ProtocolGRPC
	switch {
	case t == nil:
		return field.ErrorList{field.Required(at.Child("transport"), fmt.Sprintf("transport must be set for %s", c.ProxyProtocol))}
	case isGRPC && t.UDS == nil:
		return field.ErrorList{field.Required(at.Child("uds"), "UDS must be set with GRPC")}
	case !isGRPC && t.UDS == nil && t.TCP == nil:
		return field.ErrorList{field.Required(at.Child("tcp"), "One of TCP or UDS must be set")}
	case !isGRPC && t.UDS != nil && t.TCP != nil:
		return field.ErrorList{field.Invalid(at.Child("tcp"), t.TCP, "TCP and UDS cannot both be set")}
	case t.UDS == nil:
		return validateTCP(t.TCP, at)
	case t.UDS.UDSName == "":
		return field.ErrorList{field.Invalid(at.Child("udsName"), "nil", "must be present for UDS connections")}
	}
	return nil
}

func validateTCP(t *apiserver.TCPTransport, at *field.Path) field.ErrorList {
	tls := at.Child("tlsConfig")
	switch {
	case strings.HasPrefix(t.URL, "http://"):
		if t.TLSConfig != nil {
			return field.ErrorList{field.Invalid(tls, "nil", "config must not be present when using HTTP")}
		}
		return nil
	case !strings.HasPrefix(t.URL, "https://"):
		return field.ErrorList{field.Invalid(at.Child("url"), t.URL, "supported connection protocols are http:// and https://")}
	case t.TLSConfig == nil:
		return field.ErrorList{field.Required(tls, "TLSConfig must be present when using HTTPS")}
	}
	var errs field.ErrorList
	for _, f := range []struct{ name, path, unset, nowhere string }{
		{"caBundle", t.TLSConfig.CABundle, "", "TLS config ca bundle does not exist"},
		{"clientCert", t.TLSConfig.ClientCert, "Using TLS requires clientCert", "TLS client cert does not exist"},
		{"clientKey", t.TLSConfig.ClientKey, "Using TLS requires requires clientKey", "TLS client key does not exist"},
	} {
		if f.path == "" && f.unset != "" {
			errs = append(errs, field.Invalid(tls.Child(f.name), "nil", f.unset))
		}
		if f.path == "" {
			continue
		}
		if _, err := os.Stat(f.path); err != nil {
			errs = append(errs, field.Invalid(tls.Child(f.name), f.path, f.nowhere))
		}
	}
	return errs
}
