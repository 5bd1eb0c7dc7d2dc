//go:build linux

package main

// packages are those of Debian with what is not built here, by a file that each brings.
var packages = map[string]string{
	"/usr/sbin/runc":      "runc",
	cniPlugins + "/ptp":   "containernetworking-plugins",
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
