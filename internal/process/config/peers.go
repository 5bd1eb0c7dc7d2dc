package config

import (
	"net"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/kanzen-io/kanzen/internal/object/features"
)

func (c *Config) addPeerFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.PeerCAFile, "peer-ca-file", c.PeerCAFile, "Authorities of the other API servers of the cluster, to which requests are passed on for resources that only they serve; none: no request is.")
	fs.StringVar(&c.PeerAdvertiseIP, "peer-advertise-ip", c.PeerAdvertiseIP, "Address at which other API servers reach this one, together with --peer-advertise-port. (default: --advertise-address)")
	fs.StringVar(&c.PeerAdvertisePort, "peer-advertise-port", c.PeerAdvertisePort, "Port at which other API servers reach this one, together with --peer-advertise-ip. (default: --secure-port)")
}

func (c *Config) validatePeers(bad reporter) {
	if !c.Enabled(features.UnknownVersionInteroperabilityProxy) {
		for flag, value := range map[string]string{"peer-ca-file": c.PeerCAFile, "peer-advertise-ip": c.PeerAdvertiseIP, "peer-advertise-port": c.PeerAdvertisePort} {
			if value != "" {
				bad(flag, "requires UnknownVersionInteroperabilityProxy feature to be turned on")
			}
		}
		return
	}
	if c.PeerCAFile != "" && c.ProxyClientCertFile == "" && !c.OwnFrontProxy() {
		bad("peer-ca-file", "goes together with --proxy-client-cert-file")
	}
	if c.PeerAdvertiseIP != "" && net.ParseIP(c.PeerAdvertiseIP) == nil {
		bad("peer-advertise-ip", "%q is not an address", c.PeerAdvertiseIP)
	}
	if port, err := strconv.ParseUint(c.PeerAdvertisePort, 10, 16); c.PeerAdvertisePort != "" && (err != nil || port == 0) {
		bad("peer-advertise-port", "%q is not a port", c.PeerAdvertisePort)
	}
}

// PeerAddress returns where the other API servers of the cluster reach this one, which listens on a port; "": they do not.
func (c *Process) PeerAddress(port int) string {
	if !c.Enabled(features.UnknownVersionInteroperabilityProxy) {
		return ""
	}
	if c.PeerAdvertiseIP != "" && c.PeerAdvertisePort != "" {
		return net.JoinHostPort(c.PeerAdvertiseIP, c.PeerAdvertisePort)
	}
	ip, err := c.Advertise()
	if err != nil || ip.IsLoopback() { // from elsewhere it would lead to whoever asks
		return ""
	}
	return net.JoinHostPort(ip.String(), strconv.Itoa(port))
}
