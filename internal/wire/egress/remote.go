package egress

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// RemoteOnly returns a Selector like s (nil: all connections are direct) whose direct connections do not reach this machine and the
// links that it is on: no loopback, link-local or unspecified address. It is for connections to what users name that are not to
// reach what only this machine may. What proxies reach is theirs to say.
func RemoteOnly(s *Selector) *Selector {
	direct := (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout, Control: refuseLocal}).DialContext
	out := &Selector{dialers: map[Network]utilnet.DialFunc{}}
	for _, n := range []Network{ControlPlane, Cluster} {
		if out.dialers[n] = direct; s != nil && s.proxied[n] {
			out.dialers[n] = s.dialers[n]
		}
	}
	return out
}

// refuseLocal looks at the address that a name was resolved to.
func refuseLocal(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if ip := to.Addr().Unmap(); ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() || ip.IsUnspecified() {
		return fmt.Errorf("connections to %s are not allowed", ip)
	}
	return nil
}
