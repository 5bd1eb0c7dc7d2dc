//go:build linux

package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The images of the cluster itself. Those of the specs have the names that e2e.test lists.
const (
	pauseImage   = "registry.k8s.io/pause:3.10.2"
	coreDNSImage = "registry.k8s.io/coredns/coredns:v1.15.0"
)

// recipes say what stands for an image of the specs, by its name without registry and tag.
func recipes(l layout) (map[string]image, error) {
	pair := filepath.Join(l.Cache, "localhost")
	if _, err := newAuthority(pair, "localhost"); err != nil {
		return nil, err
	}
	base, err := busybox()
	if err != nil {
		return nil, err
	}
	tools, err := withLibraries("/bin/bash", "/usr/bin/dig", "/usr/bin/curl", "/usr/bin/getent", "/bin/nc.openbsd", "/sbin/ip")
	if err != nil {
		return nil, err
	}
	// The distribution's busybox runs its own programs when its shell is asked for one of their names, and its shell drops variables whose name
	// has a hyphen. Specs want neither.
	tools = append(tools, file{name: "/bin/sh", link: "/usr/bin/bash"})
	agnhost := [][]file{base, tools, {
		{name: "/uploads", dir: true, mode: 0o755},
		{name: "/agnhost", from: l.program("agnhost"), mode: 0o755},
		{name: "/agnhost-2", link: "agnhost"},
		{name: "/localhost.crt", from: pair + ".crt", mode: 0o644}, // for its servers
		{name: "/localhost.key", from: pair + ".key", mode: 0o644},
	}}
	demo := func(name string) image {
		return image{layers: append(slices.Clone(agnhost), []file{
			{name: "/" + name + ".jpg", text: name, mode: 0o644},
			{name: "/data.json", text: fmt.Sprintf("{\n\"image\": %q\n}\n", name+".jpg"), mode: 0o644},
		}), entrypoint: []string{"/agnhost"}, command: []string{"test-webserver"}}
	}
	web := image{layers: [][]file{base, {
		{name: "/usr/share/nginx/html", dir: true, mode: 0o755},
		{name: "/usr/share/nginx/html/index.html", text: "<html><body><h1>Welcome</h1></body></html>\n", mode: 0o644},
	}}, command: []string{"/bin/busybox", "httpd", "-f", "-p", "80", "-h", "/usr/share/nginx/html"}}
	return map[string]image{
		"pause":             {layers: [][]file{{{name: "/pause", from: l.program("pause"), mode: 0o755}}}, entrypoint: []string{"/pause"}, user: "65535:65535"},
		"coredns":           {layers: [][]file{base, {{name: "/coredns", from: l.program("coredns"), mode: 0o755}}}, entrypoint: []string{"/coredns"}},
		"agnhost":           {layers: agnhost, entrypoint: []string{"/agnhost"}, command: []string{"pause"}},
		"busybox":           {layers: [][]file{base, tools}, command: []string{"sh"}},
		"nonroot":           {layers: [][]file{base, tools}, command: []string{"sh"}, user: "1234"},
		"glibc-dns-testing": {layers: [][]file{base, tools}, command: []string{"bash"}},
		"kitten":            demo("kitten"),
		"nautilus":          demo("nautilus"),
		"nginx":             web,
		"nonewprivs":        {layers: [][]file{base, {{name: "/usr/local/bin/nnp", from: l.program("nonewprivs"), mode: 0o6755}}}, command: []string{"nnp"}},
		"sample-apiserver":  {layers: [][]file{base, {{name: "/sample-apiserver", from: l.program("sample-apiserver"), mode: 0o755}}}, entrypoint: []string{"/sample-apiserver"}},
		"etcd":              {layers: [][]file{base, {{name: "/usr/local/bin/etcd", from: l.program("etcd"), mode: 0o755}}}, command: []string{"/usr/local/bin/etcd"}},
	}, nil
}

// makeImages writes the archive of all images, and returns the names of those that the specs may ask for and that nothing stands for.
func makeImages(l layout) (missing []string, err error) {
	made, err := recipes(l)
	if err != nil {
		return nil, err
	}
	listed, err := output(l.program("e2e.test"), "--list-images")
	if err != nil {
		return nil, err
	}
	images, missing := choose(made, append(strings.Fields(listed), pauseImage, coreDNSImage))
	f, err := os.Create(l.images())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	if err := writeImages(w, images); err != nil {
		return nil, err
	}
	if err := w.Flush(); err != nil {
		return nil, err
	}
	return missing, f.Close()
}

// choose gives the images the names that are asked for, and returns the names without an image.
func choose(made map[string]image, names []string) (images []image, missing []string) {
	slices.Sort(names)
	byImage := map[string][]string{}
	for _, name := range slices.Compact(names) {
		short := shortName(name)
		// What lies behind a password, or at a registry that is not there, is not to be found.
		if i, known := made[short]; !known || !i.whole() || !strings.HasPrefix(name, "registry.k8s.io/") {
			missing = append(missing, name)
			continue
		}
		byImage[short] = append(byImage[short], name)
	}
	for short, names := range byImage {
		i := made[short]
		i.names = names
		images = append(images, i)
	}
	slices.SortFunc(images, func(a, b image) int { return strings.Compare(a.names[0], b.names[0]) })
	return images, missing
}

// whole tells whether all files of the image are there. With -build=false some may not be.
func (i image) whole() bool {
	for _, layer := range i.layers {
		for _, f := range layer {
			if _, err := os.Stat(f.from); f.from != "" && err != nil {
				return false
			}
		}
	}
	return true
}

// shortName is an image's name without registry and tag.
func shortName(name string) string {
	name = name[strings.LastIndexByte(name, '/')+1:]
	name, _, _ = strings.Cut(name, ":")
	return name
}

// busybox is a root of its own: the program under all of its names, and what programs expect in a root.
func busybox() ([]file, error) {
	const program = "/bin/busybox"
	names, err := output(program, "--list")
	if err != nil {
		return nil, err
	}
	files := []file{
		{name: "/bin", dir: true, mode: 0o755}, {name: "/etc", dir: true, mode: 0o755}, {name: "/home", dir: true, mode: 0o755},
		{name: "/lib", dir: true, mode: 0o755}, {name: "/root", dir: true, mode: 0o700}, {name: "/sbin", link: "bin"}, {name: "/tmp", dir: true, mode: 0o1777},
		{name: "/usr", dir: true, mode: 0o755}, {name: "/usr/bin", dir: true, mode: 0o755}, {name: "/usr/bin/env", link: "/bin/busybox"},
		{name: "/usr/sbin", dir: true, mode: 0o755}, {name: "/usr/local", dir: true, mode: 0o755}, {name: "/usr/local/bin", dir: true, mode: 0o755},
		{name: "/var", dir: true, mode: 0o755}, {name: "/var/log", dir: true, mode: 0o755}, {name: "/var/run", link: "/run"}, {name: "/run", dir: true, mode: 0o755}, {name: "/mnt", dir: true, mode: 0o755},
		{name: "/etc/passwd", text: "root:x:0:0:root:/root:/bin/sh\nuser-defined-in-image:x:1000:1000::/home:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n", mode: 0o644},
		{name: "/etc/group", text: "root:x:0:\nuser-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\nnogroup:x:65534:\n", mode: 0o644},
		{name: "/etc/nsswitch.conf", text: "hosts: files dns\n", mode: 0o644},
		{name: program, from: program, mode: 0o755},
	}
	for _, name := range strings.Fields(names) {
		if name != "busybox" {
			files = append(files, file{name: "/bin/" + name, link: "busybox"})
		}
	}
	return files, nil
}

// withLibraries is programs of this machine, with the libraries that they load.
func withLibraries(programs ...string) (files []file, err error) {
	paths := map[string]bool{}
	for _, program := range programs {
		out, err := output("ldd", program)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: filepath.Join("/usr/bin", strings.TrimSuffix(filepath.Base(program), ".openbsd")), from: program, mode: 0o755})
		for _, field := range strings.Fields(out) {
			if strings.HasPrefix(field, "/") {
				paths[field] = true
			}
		}
	}
	for path := range paths {
		files = append(files, file{name: path, from: path, mode: 0o755})
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return files, nil
}
