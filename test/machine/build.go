//go:build linux

package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// The versions of what is built from modules of others. Those of Kubernetes and etcd are in bench/peer.
const (
	containerdVersion  = "v2.2.9"
	containerdVariable = "github.com/containerd/containerd/v2/version.Version"
)

// kubernetesPrograms are built by bench/peer/Makefile.
var kubernetesPrograms = map[string]bool{
	"kubelet": true, "kube-proxy": true, "kube-controller-manager": true, "kube-scheduler": true, "kubectl": true, "kube-apiserver": true, "etcd": true,
	"kubeadm": true, "e2e.test": true, "ginkgo": true, "agnhost": true, "nonewprivs": true, "sample-apiserver": true,
}

// recipe is how a program is built: go with arguments, in a folder of this module.
type recipe struct {
	program, dir string
	args         []string
}

func recipes(l Layout) []recipe {
	list := []recipe{
		{program: "pause", dir: "conformance/pause", args: []string{"build", "-ldflags", "-s -w", "-o", l.Program("pause"), "."}},
		{program: "coredns", dir: "conformance/coredns", args: []string{"build", "-ldflags", "-s -w", "-o", l.Program("coredns"), "."}},
	}
	for _, name := range []string{"containerd", "ctr", "containerd-shim-runc-v2"} {
		list = append(list, recipe{program: name, args: []string{"install", "-ldflags", "-s -w -X " + containerdVariable + "=" + containerdVersion,
			"github.com/containerd/containerd/v2/cmd/" + name + "@" + containerdVersion}})
	}
	return list
}

// Build builds the programs that are not there yet: those of Kubernetes that are named, containerd, CoreDNS and pause. It is called in test/.
func Build(ctx context.Context, l Layout, kubernetes ...string) error {
	for _, name := range kubernetes {
		if err := announce(l, name); err != nil {
			return err
		}
		if err := command(ctx, "", nil, "make", "-s", "-C", "../bench/peer", "BIN="+l.Peer, l.Program(name)); err != nil {
			return fmt.Errorf("building %s: %w", name, err)
		}
	}
	if err := forgetOthers(l); err != nil {
		return err
	}
	for _, r := range recipes(l) {
		if _, err := os.Stat(l.Program(r.program)); err == nil {
			continue
		}
		if err := announce(l, r.program); err != nil {
			return err
		}
		if err := command(ctx, r.dir, []string{"CGO_ENABLED=0", "GOBIN=" + l.Programs}, "go", r.args...); err != nil {
			return fmt.Errorf("building %s: %w", r.program, err)
		}
	}
	return nil
}

// announce says that a program is built, which takes minutes in silence, if it is not there.
func announce(l Layout, name string) error {
	_, err := os.Stat(l.Program(name))
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Printf("building %s (minutes the first time)\n", name)
		return nil
	}
	return err
}

// forgetOthers removes the programs if they were built in other versions than those asked for now.
func forgetOthers(l Layout) error {
	want := containerdVersion + "\n"
	for _, path := range []string{"conformance/coredns/go.mod", "conformance/coredns/main.go", "conformance/pause/main.go"} {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		want += string(b)
	}
	stamp := filepath.Join(l.Programs, "versions")
	if got, err := os.ReadFile(stamp); err == nil && string(got) == want {
		return nil
	}
	if err := os.RemoveAll(l.Programs); err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(l.Programs, 0o755), os.WriteFile(stamp, []byte(want), 0o644))
}

// command runs a command in a folder, with more variables, and shows what it prints.
func command(ctx context.Context, dir string, variables []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), variables...)
	return cmd.Run()
}
