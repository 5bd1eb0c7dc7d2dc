package kubelet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// TestCheckedDials has an egress selector's dialer: it gets no address that is not allowed, and no names.
func TestCheckedDials(t *testing.T) {
	refused := errors.New("nobody answers")
	var got []string
	dial := checked(func(_ context.Context, _, address string) (net.Conn, error) {
		got = append(got, address)
		return nil, refused
	})
	r := rand.New(rand.NewPCG(1, 1))
	hosts := []string{"localhost", "127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254", "fe80::1", "fe80::1%lo", "0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255", "10.1.2.3", "2001:db8::1"}
	for range 200 {
		hosts = append(hosts, net.IPv4(byte(r.IntN(256)), byte(r.IntN(256)), 0, byte(r.IntN(256))).String(), fmt.Sprintf("::ffff:127.%d.0.1", r.IntN(256)))
	}
	for _, host := range hosts {
		got = nil
		_, err := dial(t.Context(), "tcp", net.JoinHostPort(host, "80"))
		want := allowed(net.ParseIP(host))
		if (len(got) > 0) != want || want != errors.Is(err, refused) {
			t.Errorf("%s: dialed %q: %v", host, got, err)
		}
		for _, address := range got {
			if h, _, _ := net.SplitHostPort(address); !allowed(net.ParseIP(h)) {
				t.Errorf("%s: dialed %s", host, address)
			}
		}
	}
}
