package config

import (
	"crypto/tls"
	"fmt"
)

var tlsVersions = map[string]uint16{
	"VersionTLS10": tls.VersionTLS10, "VersionTLS11": tls.VersionTLS11,
	"VersionTLS12": tls.VersionTLS12, "VersionTLS13": tls.VersionTLS13,
}

// TLSVersion reads --tls-min-version.
func TLSVersion(name string) (uint16, error) {
	if name == "" {
		return tls.VersionTLS12, nil
	}
	if v, ok := tlsVersions[name]; ok {
		return v, nil
	}
	return 0, fmt.Errorf("%q is none of VersionTLS10, VersionTLS11, VersionTLS12, VersionTLS13", name)
}

// CipherSuites reads --tls-cipher-suites.
func CipherSuites(names []string) ([]uint16, error) {
	known := map[string]uint16{}
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
