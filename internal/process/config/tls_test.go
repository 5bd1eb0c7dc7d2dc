package config

import (
	"crypto/tls"
	"testing"
)

// TestCipherSuites takes each name that Go has, and the two that kube-apiserver has from before Go's.
func TestCipherSuites(t *testing.T) {
	want := map[string]uint16{
		"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305":   tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
		"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
	}
	for _, s := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		want[s.Name] = s.ID
	}
	for name, id := range want {
		if got, err := CipherSuites([]string{name}); err != nil || len(got) != 1 || got[0] != id {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if _, err := CipherSuites([]string{"TLS_NULL"}); err == nil {
		t.Error("an unknown suite is taken")
	}
}
