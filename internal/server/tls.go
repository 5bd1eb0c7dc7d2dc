package server

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math"
	"strings"
	"sync"
)

var tlsVersions = map[string]uint16{
	"VersionTLS10": tls.VersionTLS10, "VersionTLS11": tls.VersionTLS11,
	"VersionTLS12": tls.VersionTLS12, "VersionTLS13": tls.VersionTLS13,
}

// tlsVersion reads --tls-min-version.
func tlsVersion(name string) (uint16, error) {
	if name == "" {
		return tls.VersionTLS12, nil
	}
	if v, ok := tlsVersions[name]; ok {
		return v, nil
	}
	return 0, fmt.Errorf("%q is none of VersionTLS10, VersionTLS11, VersionTLS12, VersionTLS13", name)
}

// cipherSuites reads --tls-cipher-suites.
func cipherSuites(names []string) ([]uint16, error) {
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

// curvePreferences reads --tls-curve-preferences: the numbers of the key
// exchanges that are offered. Go orders them itself.
func curvePreferences(numbers []int32) ([]tls.CurveID, error) {
	var out []tls.CurveID
	seen := map[int32]bool{}
	for _, n := range numbers {
		id := tls.CurveID(n)
		switch {
		case n <= 0 || n > math.MaxUint16:
			return nil, fmt.Errorf("curve preference %d is out of range (must be 1-%d)", n, math.MaxUint16)
		case seen[n]:
			return nil, fmt.Errorf("duplicate curve preference %d", n)
		case strings.HasPrefix(id.String(), "CurveID("): // that is how Go prints those it does not have
			return nil, fmt.Errorf("curve preference %d is not supported by the current Go version", n)
		}
		seen[n] = true
		out = append(out, id)
	}
	return out, nil
}

// clientAuthorities tells clients in the handshake whose certificates are
// accepted, for those that have several to choose from. It is a hint: the
// authenticators judge. The authorities are those of the files as they are now.
type clientAuthorities struct {
	base *tls.Config
	keys *keys

	mu                    sync.Mutex
	client, requestHeader []byte      // of which made is made; guarded by mu
	made                  *tls.Config // guarded by mu
}

// config is for tls.Config.GetConfigForClient.
func (a *clientAuthorities) config(*tls.ClientHelloInfo) (*tls.Config, error) {
	client, requestHeader := a.keys.clientCAPEM(), a.keys.requestHeaderCAPEM()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.made != nil && bytes.Equal(client, a.client) && bytes.Equal(requestHeader, a.requestHeader) {
		return a.made, nil
	}
	made := a.base.Clone()
	made.ClientCAs = x509.NewCertPool()
	made.ClientCAs.AppendCertsFromPEM(client)
	made.ClientCAs.AppendCertsFromPEM(requestHeader)
	a.client, a.requestHeader, a.made = client, requestHeader, made
	return made, nil
}
