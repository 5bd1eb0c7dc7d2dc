package controlplane

import (
	"maps"
	"strings"
	"testing"
)

// The name is kube-apiserver's for the same host, so that a server of either kind takes over the lease of the other.
func TestIdentityName(t *testing.T) {
	for host, want := range map[string]string{
		"a": "apiserver-2tpgmlbwcz6wvzejdfn7mej2p4", "kanzen-host": "apiserver-jkteql2jbis54fq2r5v6y6e5f4",
	} {
		if got := IdentityName(host); got != want {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
}

// Settings are what a server writes, whatever else is in a lease.
func TestSettings(t *testing.T) {
	settings := map[string]string{"version": "v1.2.3", "feature-gates": "01234567"}
	if got := read(written(settings)); !maps.Equal(got, settings) {
		t.Errorf("%q", got)
	}
	long := strings.Repeat("a", 1<<20)
	if got := read("x,=,version=" + long + "," + long + "=1,a=1"); !maps.Equal(got, map[string]string{"": "", "a": "1"}) {
		t.Errorf("of a forged lease: %.200q", got)
	}
}
