package controlplane

import "testing"

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
