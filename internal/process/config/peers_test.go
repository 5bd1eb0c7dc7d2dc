package config

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

func TestPeers(t *testing.T) {
	t.Parallel()
	const off = "UnknownVersionInteroperabilityProxy=false"
	for _, test := range []struct {
		name, gates, ca, ip, port string
		own                       bool // a data directory, with a certificate of a front proxy
		wrong                     string
	}{
		{name: "nothing"},
		{name: "all", ca: "f", ip: "10.0.0.1", port: "6443", own: true},
		{name: "off", gates: off},
		{name: "off, with authorities", gates: off, ca: "f", wrong: "--peer-ca-file: requires UnknownVersionInteroperabilityProxy feature to be turned on"},
		{name: "off, with an address", gates: off, ip: "10.0.0.1", wrong: "--peer-advertise-ip: requires UnknownVersionInteroperabilityProxy feature to be turned on"},
		{name: "no certificate", ca: "f", wrong: "--peer-ca-file: goes together with --proxy-client-cert-file"},
		{name: "no address", ip: "here", port: "1", wrong: `--peer-advertise-ip: "here" is not an address`},
		{name: "no port", ip: "::1", port: "70000", wrong: `--peer-advertise-port: "70000" is not a port`},
	} {
		c := Default()
		if test.gates != "" {
			c.FeatureGates = []string{test.gates}
		}
		if test.own {
			c.DataDir = t.TempDir()
		}
		c.PeerCAFile, c.PeerAdvertiseIP, c.PeerAdvertisePort = test.ca, test.ip, test.port
		c.derive()
		var said []string
		c.validatePeers(func(flag, format string, args ...any) {
			said = append(said, fmt.Sprintf("--"+flag+": "+format, args...))
		})
		if got := strings.Join(said, "; "); got != test.wrong {
			t.Errorf("%s: %q", test.name, got)
		}
	}
}

func TestPeerAddress(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ advertise, ip, port, want string }{
		{advertise: "10.0.0.1", want: "10.0.0.1:6443"},
		{advertise: "10.0.0.1", ip: "10.0.0.2", want: "10.0.0.1:6443"},
		{advertise: "10.0.0.1", ip: "fd00::2", port: "7", want: "[fd00::2]:7"},
		{advertise: "127.0.0.1"}, // which is another machine elsewhere
		{advertise: "127.0.0.1", ip: "127.0.0.1", port: "7", want: "127.0.0.1:7"},
	} {
		c := Default()
		c.AdvertiseAddress, c.PeerAdvertiseIP, c.PeerAdvertisePort = net.ParseIP(test.advertise), test.ip, test.port
		c.derive()
		if got := c.PeerAddress(6443); got != test.want {
			t.Errorf("%+v: %q", test, got)
		}
	}
}
