//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/kanzen-io/kanzen/test/machine"
)

// startNode starts a node's stage, and gives it a network.
func startNode(l layout, number, nodes int, args []string, ended func(string, error)) error {
	cmd := machine.Stage("node", append(slices.Clone(args), fmt.Sprintf("-node=%d", number), fmt.Sprintf("-nodes=%d", nodes)))
	_, err := machine.StartNode(l.Layout, number, machine.NodeNamespaces, ended, cmd)
	return err
}

// node is the stage that is a node: containerd with the images, kubelet, kube-proxy. It ends when one of them does.
func node(l layout, number, nodes int) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := machine.BeginNode(l.Layout, number, nodes); err != nil {
		return err
	}
	if err := writeNodeFiles(l, number); err != nil {
		return err
	}
	over := make(chan error, 3)
	ended := func(name string, err error) {
		over <- fmt.Errorf("%s ended: %w", name, errors.Join(err, machine.ErrSaid))
	}
	if err := machine.Containerd(ctx, l.Layout, number, ended); err != nil {
		return err
	}
	name := machine.NodeName(number)
	for _, cmd := range []*exec.Cmd{
		exec.Command(l.Program("kubelet"), "--config="+l.Config(number, "kubelet.yaml"), "--kubeconfig=/var/lib/kubelet/kubeconfig", "--bootstrap-kubeconfig="+l.PKI("bootstrap.kubeconfig"),
			"--cert-dir=/var/lib/kubelet/pki", "--hostname-override="+name, "--node-ip="+machine.NodeAddress(number), "--v=2"),
		exec.Command(l.Program("kube-proxy"), "--config="+l.Config(number, "kube-proxy.yaml")),
	} {
		cmd.Env = machine.Environment(l.Layout)
		if _, err := machine.Start(l.Log(name+"-"+filepath.Base(cmd.Path)), ended, cmd); err != nil {
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
