//go:build linux

package machine

// Packages are those of Debian with what is not built here, by a file that each brings.
var Packages = map[string]string{
	"/usr/sbin/runc":      "runc",
	CNIPlugins + "/ptp":   "containernetworking-plugins",
	"/usr/sbin/iptables":  "iptables",
	"/usr/sbin/conntrack": "conntrack",
	"/bin/busybox":        "busybox-static",
	"/sbin/ip":            "iproute2",
	"/usr/bin/dig":        "bind9-dnsutils",
	"/usr/bin/curl":       "curl",
	"/bin/nc.openbsd":     "netcat-openbsd",
	"/bin/mount":          "mount",
	"/usr/bin/make":       "make",
}
