//go:build linux

package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/kanzen-io/kanzen/test/machine"
)

// agnhostImage is that of the workload.
const agnhostImage = "registry.example/agnhost:1"

// makeImages writes the archive of the images that kubeadm asks for, of kanzen's and of the workload's.
func makeImages(s settings) error {
	listed, err := machine.Output(s.Program("kubeadm"), "config", "images", "list", "--kubernetes-version="+version)
	if err != nil {
		return err
	}
	base, err := machine.Busybox()
	if err != nil {
		return err
	}
	made, err := imagesOfKubeadm(s, base)
	if err != nil {
		return err
	}
	var images []machine.Image
	for _, name := range strings.Fields(listed) {
		short, _, _ := strings.Cut(filepath.Base(name), ":")
		i, known := made[short]
		if !known {
			return fmt.Errorf("kubeadm asks for the image %s, which nothing here stands for", name)
		}
		i.Names = []string{name}
		images = append(images, i)
	}
	tools, err := machine.Tools()
	if err != nil {
		return err
	}
	kanzen := machine.Image{Names: []string{kanzenImage}, Layers: [][]machine.File{base, {{Name: "/usr/local/bin/kube-apiserver", From: s.Kanzen, Mode: 0o755}}}}
	workload := machine.Agnhost(s.Layout, base, tools)
	workload.Names = []string{agnhostImage}
	return machine.WriteImagesTo(s.Images(), append(images, kanzen, workload))
}

// released is the archive of the image as releases have it.
func (s settings) released() string { return filepath.Join(s.Cache, "released.tar") }

// makeReleased makes the image with the program that makes it for a release.
func makeReleased(ctx context.Context, s settings) error {
	layout := filepath.Join(s.Cache, "released")
	cmd := exec.CommandContext(ctx, "go", "run", "./image", "-o", layout, "-version", version, "linux/"+runtime.GOARCH+"="+s.Kanzen+","+filepath.Join(filepath.Dir(s.Kanzen), "kanzen-kubectl"))
	cmd.Dir = "../release"
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("making the released image: %w: %s", err, out)
	}
	f, err := os.Create(s.released())
	if err != nil {
		return err
	}
	defer f.Close()
	w := tar.NewWriter(f)
	return errors.Join(w.AddFS(os.DirFS(layout)), w.Close(), os.RemoveAll(layout))
}

// imagesOfKubeadm are those that it asks for, by their names without registry and tag. Each has its program where static pods and daemons look for it.
func imagesOfKubeadm(s settings, base []machine.File) (map[string]machine.Image, error) {
	rules, err := machine.IPTables()
	if err != nil {
		return nil, err
	}
	made := map[string]machine.Image{"pause": machine.Pause(s.Layout), "coredns": machine.CoreDNS(s.Layout, base), "etcd": machine.Etcd(s.Layout, base)}
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"} {
		i := machine.Image{Layers: [][]machine.File{base, {{Name: "/usr/local/bin/" + name, From: s.Program(name), Mode: 0o755}}}}
		if name == "kube-proxy" {
			i.Layers = append(i.Layers, rules)
		}
		made[name] = i
	}
	return made, nil
}
