//go:build linux

package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/kanzen-io/kanzen/test/machine"
)

// allNodes is how many nodes there can be: the first control plane, a worker, two more control planes.
const allNodes = 4

//go:embed systemctl.sh
var systemctl string

// readyMark is a file that a node has when people can log in.
const readyMark = "/run/node-is-ready"

// node is the stage that is a node, before and after somebody calls kubeadm on it: containerd, and the kubelet if it has been started before.
func node(s settings, number int) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := machine.BeginNode(s.Layout, number, allNodes, "/etc", "/usr"); err != nil {
		return err
	}
	if err := writeNodeFiles(s, number); err != nil {
		return err
	}
	over := make(chan error, 1)
	ended := func(name string, err error) {
		over <- fmt.Errorf("%s ended: %w", name, errors.Join(err, machine.ErrSaid))
	}
	if err := machine.Containerd(ctx, s.Layout, number, ended, s.released()); err != nil {
		return err
	}
	if _, err := os.Stat("/etc/kubernetes/kubelet.conf"); err == nil {
		start := exec.Command("systemctl", "start", "kubelet")
		start.Path, start.Env = s.Config(number, "bin/systemctl"), nodeEnvironment(s, number)
		if out, err := start.CombinedOutput(); err != nil {
			return fmt.Errorf("starting the kubelet: %w: %s", err, out)
		}
	}
	if err := os.WriteFile(readyMark, nil, 0o644); err != nil {
		return err
	}
	select {
	case err := <-over:
		return err
	case <-ctx.Done():
		return nil
	}
}

// nodeEnvironment is that of somebody who is logged in on a node as root.
func nodeEnvironment(s settings, number int) []string {
	path := []string{s.Config(number, "bin"), s.Peer, s.Programs, "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}
	return []string{"PATH=" + strings.Join(path, ":"), "HOME=/root", "KUBECONFIG=" + adminConfig, "LANG=C"}
}

// nodeFiles are the files of a node's configuration before kubeadm is called.
func nodeFiles() map[string]string {
	return map[string]string{
		"bin/systemctl": systemctl, "kubeadm.yaml": kubeadmConfig, "hosts": hosts(), "kubelet": "KUBELET_EXTRA_ARGS=--cgroup-root=$CGROUPS\n",
		"resolv.conf": "nameserver $MACHINE\n", "patches/kube-apiserver+strategic.yaml": imagePatch, "released/kube-apiserver+strategic.yaml": releasedPatch,
	}
}

// values are what is put into these files.
func (s settings) values(number int) []string {
	image := kanzenImage
	if s.peer {
		image = peerImage
	}
	return []string{"$PROGRAMS", s.Peer, "$LOG", s.Log(machine.NodeName(number) + "-kubelet"), "$IMAGE", image, "$RELEASED", releasedImage, "$VERSION", version}
}

// writeNodeFiles writes the configuration, and puts in its place what programs look for elsewhere.
func writeNodeFiles(s settings, number int) error {
	if err := machine.WriteNodeFiles(s.Layout, number, nodeFiles(), s.values(number)...); err != nil {
		return err
	}
	if err := os.Chmod(s.Config(number, "bin/systemctl"), 0o755); err != nil {
		return err
	}
	for name, to := range map[string]string{"hosts": "/etc/hosts", "resolv.conf": "/etc/resolv.conf", "kubelet": "/etc/default/kubelet"} {
		b, err := os.ReadFile(s.Config(number, name))
		if err != nil {
			return err
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.RemoveAll(to), os.WriteFile(to, b, 0o644)); err != nil {
			return err
		}
	}
	return nil
}

func hosts() string {
	text := "127.0.0.1 localhost\n"
	for n := 1; n <= allNodes; n++ {
		text += machine.NodeAddress(n) + " " + machine.NodeName(n) + "\n"
	}
	return text
}
