//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// startNode starts a node's stage, and gives it a network.
func startNode(l layout, number, nodes int, args []string, ended func(string, error)) error {
	cmd := stage("node", append(slices.Clone(args), fmt.Sprintf("-node=%d", number), fmt.Sprintf("-nodes=%d", nodes)))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: nodeNamespaces}
	connected, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if _, err := start(l.log(nodeName(number)), ended, cmd); err != nil {
		return err
	}
	if err := connect(number, cmd.Process.Pid); err != nil {
		return err
	}
	_, err = connected.Write([]byte("connected\n"))
	return err
}

// node is the stage that is a node: containerd with the images, kubelet, kube-proxy. It ends when one of them does.
func node(l layout, number, nodes int) error {
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return fmt.Errorf("waiting for a network: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := configure(number, nodes); err != nil {
		return err
	}
	if err := syscall.Sethostname([]byte(nodeName(number))); err != nil {
		return err
	}
	if err := disk(l, number); err != nil {
		return err
	}
	if err := writeNodeFiles(l, number); err != nil {
		return err
	}
	over := make(chan error, 3)
	ended := func(name string, err error) { over <- fmt.Errorf("%s ended: %w", name, errors.Join(err, errStage)) }
	if err := containerd(ctx, l, number, ended); err != nil {
		return err
	}
	for _, cmd := range []*exec.Cmd{
		exec.Command(l.program("kubelet"), "--config="+l.config(number, "kubelet.yaml"), "--kubeconfig=/var/lib/kubelet/kubeconfig", "--bootstrap-kubeconfig="+l.pki("bootstrap.kubeconfig"),
			"--cert-dir=/var/lib/kubelet/pki", "--hostname-override="+nodeName(number), "--node-ip="+nodeAddress(number), "--v=2"),
		exec.Command(l.program("kube-proxy"), "--config="+l.config(number, "kube-proxy.yaml")),
	} {
		cmd.Env = nodeEnvironment(l)
		if _, err := start(l.log(nodeName(number)+"-"+filepath.Base(cmd.Path)), ended, cmd); err != nil {
			return err
		}
	}
	select {
	case err := <-over:
		return err
	case <-ctx.Done():
		return nil
	}
}

// nodeEnvironment finds the programs that containerd and kubelet start.
func nodeEnvironment(l layout) []string {
	return append(os.Environ(), "PATH="+l.bin()+":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
}

// disk gives the node a /var, /tmp and /run of its own: its programs write there and nowhere else. Mounts below them are shared with
// containers that ask for it.
func disk(l layout, number int) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	for _, dir := range []string{"/var", "/tmp"} {
		own := filepath.Join(l.node(number), dir)
		for _, below := range []string{"", "lib", "log", "tmp"} {
			if err := os.MkdirAll(filepath.Join(own, below), 0o755); err != nil {
				return err
			}
		}
		if err := syscall.Mount(own, dir, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", dir, err)
		}
	}
	if err := os.Symlink("/run", "/var/run"); err != nil {
		return err
	}
	if err := os.Chmod("/tmp", 0o1777); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", "/run", "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mounting /run: %w", err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED, ""); err != nil {
		return fmt.Errorf("sharing mounts: %w", err)
	}
	return nil
}

// containerd starts containerd and imports the images.
func containerd(ctx context.Context, l layout, number int, ended func(string, error)) error {
	cmd := exec.Command(l.program("containerd"), "--config="+l.config(number, "containerd.toml"))
	cmd.Env = nodeEnvironment(l)
	if _, err := start(l.log(nodeName(number)+"-containerd"), ended, cmd); err != nil {
		return err
	}
	ctr := func(ctx context.Context, args ...string) error {
		out, err := exec.CommandContext(ctx, l.program("ctr"), append([]string{"--namespace=k8s.io"}, args...)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ctr %v: %w: %s", args, err, out)
		}
		return nil
	}
	if err := eventually(ctx, time.Minute, "containerd answers", func(ctx context.Context) error { return ctr(ctx, "version") }); err != nil {
		return err
	}
	return ctr(ctx, "images", "import", "--local", l.images())
}
