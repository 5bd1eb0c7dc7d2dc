//go:build linux

package main

// packages are those of Debian whose programs the scripts call, by a file that each brings.
var packages = map[string]string{
	"/bin/mount":       "mount",
	"/bin/ss":          "iproute2",
	"/usr/bin/awk":     "mawk",
	"/usr/bin/curl":    "curl",
	"/usr/bin/diff":    "diffutils",
	"/usr/bin/jq":      "jq",
	"/usr/bin/make":    "make",
	"/usr/bin/openssl": "openssl",
	"/usr/bin/script":  "bsdutils",
	"/usr/bin/tput":    "ncurses-bin",
}
