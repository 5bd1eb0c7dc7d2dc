//go:build linux

package machine

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// PauseImage is what every pod's sandbox starts from.
const PauseImage = "registry.k8s.io/pause:3.10.2"

// WriteImagesTo writes an archive to a file.
func WriteImagesTo(path string, images []Image) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	if err := WriteImages(w, images); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}

// Pause is the image of a sandbox.
func Pause(l Layout) Image {
	return Image{Layers: [][]File{{{Name: "/pause", From: l.Program("pause"), Mode: 0o755}}}, Entrypoint: []string{"/pause"}, User: "65535:65535"}
}

// CoreDNS is the image of the cluster's DNS.
func CoreDNS(l Layout, base []File) Image {
	return Image{Layers: [][]File{base, {{Name: "/coredns", From: l.Program("coredns"), Mode: 0o755}}}, Entrypoint: []string{"/coredns"}}
}

// Etcd is the image of etcd.
func Etcd(l Layout, base []File) Image {
	return Image{Layers: [][]File{base, {{Name: "/usr/local/bin/etcd", From: l.Program("etcd"), Mode: 0o755}}}, Command: []string{"/usr/local/bin/etcd"}}
}

// Agnhost is the image that Kubernetes tests with, with more files.
func Agnhost(l Layout, base, tools []File, more ...File) Image {
	return Image{Layers: [][]File{base, tools, append([]File{
		{Name: "/uploads", Dir: true, Mode: 0o755},
		{Name: "/agnhost", From: l.Program("agnhost"), Mode: 0o755},
		{Name: "/agnhost-2", Link: "agnhost"},
	}, more...)}, Entrypoint: []string{"/agnhost"}, Command: []string{"pause"}}
}

// Busybox is a root of its own: the program under all of its names, and what programs expect in a root.
func Busybox() ([]File, error) {
	const program = "/bin/busybox"
	names, err := Output(program, "--list")
	if err != nil {
		return nil, err
	}
	files := []File{
		{Name: "/bin", Dir: true, Mode: 0o755}, {Name: "/etc", Dir: true, Mode: 0o755}, {Name: "/home", Dir: true, Mode: 0o755},
		{Name: "/lib", Dir: true, Mode: 0o755}, {Name: "/root", Dir: true, Mode: 0o700}, {Name: "/sbin", Link: "bin"}, {Name: "/tmp", Dir: true, Mode: 0o1777},
		{Name: "/usr", Dir: true, Mode: 0o755}, {Name: "/usr/bin", Dir: true, Mode: 0o755}, {Name: "/usr/bin/env", Link: "/bin/busybox"},
		{Name: "/usr/sbin", Dir: true, Mode: 0o755}, {Name: "/usr/local", Dir: true, Mode: 0o755}, {Name: "/usr/local/bin", Dir: true, Mode: 0o755},
		{Name: "/var", Dir: true, Mode: 0o755}, {Name: "/var/log", Dir: true, Mode: 0o755}, {Name: "/var/run", Link: "/run"}, {Name: "/run", Dir: true, Mode: 0o755}, {Name: "/mnt", Dir: true, Mode: 0o755},
		{Name: "/etc/passwd", Text: "root:x:0:0:root:/root:/bin/sh\nuser-defined-in-image:x:1000:1000::/home:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n", Mode: 0o644},
		{Name: "/etc/group", Text: "root:x:0:\nuser-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\nnogroup:x:65534:\n", Mode: 0o644},
		{Name: "/etc/nsswitch.conf", Text: "hosts: files dns\n", Mode: 0o644},
		{Name: program, From: program, Mode: 0o755},
	}
	for _, name := range strings.Fields(names) {
		if name != "busybox" {
			files = append(files, File{Name: "/bin/" + name, Link: "busybox"})
		}
	}
	return files, nil
}

// Tools are programs that people call in a container, with bash as the shell: the distribution's busybox runs its own programs when its shell is
// asked for one of their names, and its shell drops variables whose name has a hyphen. Specs want neither.
func Tools() ([]File, error) {
	tools, err := WithLibraries("/bin/bash", "/usr/bin/dig", "/usr/bin/curl", "/usr/bin/getent", "/bin/nc.openbsd", "/sbin/ip")
	return append(tools, File{Name: "/bin/sh", Link: "/usr/bin/bash"}), err
}

// WithLibraries is programs of this machine, with the libraries that they load.
func WithLibraries(programs ...string) (files []File, err error) {
	for _, program := range programs {
		files = append(files, File{Name: filepath.Join("/usr/bin", strings.TrimSuffix(filepath.Base(program), ".openbsd")), From: program, Mode: 0o755})
	}
	return withLibrariesOf(files)
}

// withLibrariesOf adds the libraries that files load.
func withLibrariesOf(files []File) ([]File, error) {
	paths := map[string]bool{}
	for _, f := range files {
		out, err := Output("ldd", f.From)
		if err != nil {
			return nil, err
		}
		for _, field := range strings.Fields(out) {
			if strings.HasPrefix(field, "/") {
				paths[field] = true
			}
		}
	}
	for path := range paths {
		files = append(files, File{Name: path, From: path, Mode: 0o755})
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(files, func(a, b File) bool { return a.Name == b.Name }), nil
}

// IPTables is iptables with its plugins, and conntrack, which kube-proxy calls.
func IPTables() (files []File, err error) {
	for _, name := range []string{"iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore", "conntrack"} {
		files = append(files, File{Name: "/usr/sbin/" + name, From: "/usr/sbin/" + name, Mode: 0o755})
	}
	plugins, err := filepath.Glob("/usr/lib/*/xtables/*.so")
	if err != nil {
		return nil, err
	}
	for _, path := range plugins {
		files = append(files, File{Name: path, From: path, Mode: 0o644})
	}
	return withLibrariesOf(files)
}
