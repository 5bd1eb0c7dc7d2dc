//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
)

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

// install installs the packages whose file is not there.
func install(ctx context.Context) error {
	var missing []string
	for path, name := range packages {
		if _, err := os.Stat(path); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("this machine lacks what Debian has in the packages %v, and there is no apt-get to install them", missing)
	}
	fmt.Printf("installing %v\n", missing)
	const lock = "DPkg::Lock::Timeout=300"
	if err := command(ctx, "", nil, "apt-get", "-qq", "-o", lock, "update"); err != nil {
		return fmt.Errorf("apt-get update: %w", err)
	}
	return command(ctx, "", nil, "apt-get", append([]string{"-qq", "-o", lock, "install", "-y", "--no-install-recommends"}, missing...)...)
}
