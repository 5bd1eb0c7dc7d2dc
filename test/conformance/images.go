//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kanzen-io/kanzen/test/machine"
)

// coreDNSImage is the image of the cluster's DNS. Those of the specs have the names that e2e.test lists.
const coreDNSImage = "registry.k8s.io/coredns/coredns:v1.15.0"

// recipes say what stands for an image of the specs, by its name without registry and tag.
func recipes(l layout) (map[string]machine.Image, error) {
	pair := filepath.Join(l.Cache, "localhost")
	if _, err := machine.NewAuthority(pair, "localhost"); err != nil {
		return nil, err
	}
	base, err := machine.Busybox()
	if err != nil {
		return nil, err
	}
	tools, err := machine.Tools()
	if err != nil {
		return nil, err
	}
	agnhost := machine.Agnhost(l.Layout, base, tools,
		machine.File{Name: "/localhost.crt", From: pair + ".crt", Mode: 0o644}, // for its servers
		machine.File{Name: "/localhost.key", From: pair + ".key", Mode: 0o644},
	)
	demo := func(name string) machine.Image {
		return machine.Image{Layers: append(slices.Clone(agnhost.Layers), []machine.File{
			{Name: "/" + name + ".jpg", Text: name, Mode: 0o644},
			{Name: "/data.json", Text: fmt.Sprintf("{\n\"image\": %q\n}\n", name+".jpg"), Mode: 0o644},
		}), Entrypoint: []string{"/agnhost"}, Command: []string{"test-webserver"}}
	}
	web := machine.Image{Layers: [][]machine.File{base, {
		{Name: "/usr/share/nginx/html", Dir: true, Mode: 0o755},
		{Name: "/usr/share/nginx/html/index.html", Text: "<html><body><h1>Welcome</h1></body></html>\n", Mode: 0o644},
	}}, Command: []string{"/bin/busybox", "httpd", "-f", "-p", "80", "-h", "/usr/share/nginx/html"}}
	return map[string]machine.Image{
		"pause":             machine.Pause(l.Layout),
		"coredns":           machine.CoreDNS(l.Layout, base),
		"agnhost":           agnhost,
		"busybox":           {Layers: [][]machine.File{base, tools}, Command: []string{"sh"}},
		"nonroot":           {Layers: [][]machine.File{base, tools}, Command: []string{"sh"}, User: "1234"},
		"glibc-dns-testing": {Layers: [][]machine.File{base, tools}, Command: []string{"bash"}},
		"kitten":            demo("kitten"),
		"nautilus":          demo("nautilus"),
		"nginx":             web,
		"nonewprivs":        {Layers: [][]machine.File{base, {{Name: "/usr/local/bin/nnp", From: l.Program("nonewprivs"), Mode: 0o6755}}}, Command: []string{"nnp"}},
		"sample-apiserver":  {Layers: [][]machine.File{base, {{Name: "/sample-apiserver", From: l.Program("sample-apiserver"), Mode: 0o755}}}, Entrypoint: []string{"/sample-apiserver"}},
		"etcd":              machine.Etcd(l.Layout, base),
	}, nil
}

// makeImages writes the archive of all images, and returns the names of those that the specs may ask for and that nothing stands for.
func makeImages(l layout) (missing []string, err error) {
	made, err := recipes(l)
	if err != nil {
		return nil, err
	}
	listed, err := machine.Output(l.Program("e2e.test"), "--list-images")
	if err != nil {
		return nil, err
	}
	images, missing := choose(made, append(strings.Fields(listed), machine.PauseImage, coreDNSImage))
	return missing, machine.WriteImagesTo(l.Images(), images)
}

// choose gives the images the names that are asked for, and returns the names without an image.
func choose(made map[string]machine.Image, names []string) (images []machine.Image, missing []string) {
	slices.Sort(names)
	byImage := map[string][]string{}
	for _, name := range slices.Compact(names) {
		short := shortName(name)
		// What lies behind a password, or at a registry that is not there, is not to be found.
		if i, known := made[short]; !known || !whole(i) || !strings.HasPrefix(name, "registry.k8s.io/") {
			missing = append(missing, name)
			continue
		}
		byImage[short] = append(byImage[short], name)
	}
	for short, names := range byImage {
		i := made[short]
		i.Names = names
		images = append(images, i)
	}
	slices.SortFunc(images, func(a, b machine.Image) int { return strings.Compare(a.Names[0], b.Names[0]) })
	return images, missing
}

// whole tells whether all files of the image are there. With -build=false some may not be.
func whole(i machine.Image) bool {
	for _, layer := range i.Layers {
		for _, f := range layer {
			if _, err := os.Stat(f.From); f.From != "" && err != nil {
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
