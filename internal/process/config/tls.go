package config

import (
	"crypto/tls"
	"fmt"
	"math"
	"strings"
)

var tlsVersions = map[string]uint16{
	"VersionTLS10": tls.VersionTLS10, "VersionTLS11": tls.VersionTLS11,
	"VersionTLS12": tls.VersionTLS12, "VersionTLS13": tls.VersionTLS13,
}

// TLSVersion parses --tls-min-version.
func TLSVersion(name string) (uint16, error) {
	if name == "" {
		return tls.VersionTLS12, nil
	}
	if v, ok := tlsVersions[name]; ok {
		return v, nil
	}
	return 0, fmt.Errorf("%q is none of VersionTLS10, VersionTLS11, VersionTLS12, VersionTLS13", name)
}

// CipherSuites parses --tls-cipher-suites.
func CipherSuites(names []string) ([]uint16, error) {
	known := map[string]uint16{
		// Names that Kubernetes has from before RFC 7905 and still takes.
		"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305":   tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
		"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
	}
	for _, s := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		known[s.Name] = s.ID
	}
	var out []uint16
	for _, n := range names {
		id, ok := known[n]
		if !ok {
			return nil, fmt.Errorf("unknown cipher suite %q", n)
		}
		out = append(out, id)
	}
	return out, nil
}

// CurvePreferences parses --tls-curve-preferences: the numbers of the offered key exchanges. Go itself orders them.
func CurvePreferences(numbers []int32) ([]tls.CurveID, error) {
	var out []tls.CurveID
	seen := map[int32]bool{}
	for _, n := range numbers {
		id := tls.CurveID(n)
		switch {
		case n <= 0 || n > math.MaxUint16:
			return nil, fmt.Errorf("curve preference %d is out of range (must be 1-%d)", n, math.MaxUint16)
		case seen[n]:
			return nil, fmt.Errorf("duplicate curve preference %d", n)
		case strings.HasPrefix(id.String(), "CurveID("): // Go formats unknown curves like this
			return nil, fmt.Errorf("curve preference %d is not supported by the current Go version", n)
		}
		seen[n] = true
		out = append(out, id)
	}
	return out, nil
}
