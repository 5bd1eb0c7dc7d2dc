//go:build linux

// Kubeadm makes a cluster with kubeadm on nodes of one machine, with kanzen in the static pod of kube-apiserver, and does to it what people do to
// such a cluster: nodes join, certificates are renewed, the control plane is upgraded, changes its server and loses a node. It is run in
// test/, as root:
//
//	go run ./kubeadm [flags]
//
// See docs/kubeadm.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/kanzen-io/kanzen/test/evidence"
	"github.com/kanzen-io/kanzen/test/machine"
	"github.com/kanzen-io/kanzen/test/suite"
)

// group is the control group below which the kubelets of a run make theirs.
const group = "kanzen-kubeadm"

// settings are what flags say.
type settings struct {
	machine.Layout
	peer     bool
	hold     bool
	build    bool
	evidence string
}

func main() {
	machine.Main(mainStage)
}

// mainStage runs the stage that the arguments name.
func mainStage(args []string) error {
	name, args := machine.Chosen(args)
	var s settings
	s.Group = group
	number, bin := 0, ""
	flags := flag.NewFlagSet("kubeadm", flag.ContinueOnError)
	flags.BoolVar(&s.peer, "peer", false, "run kube-apiserver in place of kanzen throughout")
	flags.BoolVar(&s.hold, "hold", false, "keep the cluster after the last step, or the one that failed, until Ctrl-C")
	flags.BoolVar(&s.build, "build", true, "install packages and build programs that are missing")
	flags.StringVar(&bin, "bin", "../bin", "folder of kanzen, and of the folders kubeadm, for a run, and conformance/bin, for programs")
	flags.StringVar(&s.Peer, "peer-programs", "../bench/peer/bin", "folder of the programs of Kubernetes")
	flags.StringVar(&s.evidence, "evidence", "../docs/evidence/kubeadm.json", "file of evidence, to which a run is added; none if empty")
	flags.IntVar(&number, "node", 0, "in the stage of a node, which one it is")
	if err := flags.Parse(args); err != nil {
		return machine.ErrSaid // the flag set has said it
	}
	if rest := flags.Args(); len(rest) > 0 {
		return fmt.Errorf("unknown arguments %v", rest)
	}
	stages := map[string]func() error{
		"outer":     func() error { return outer(s, args) },
		"init":      func() error { return machine.Initialize("cluster", args) },
		"cluster":   func() error { return clusterStage(s, args) },
		"node-init": func() error { return machine.Initialize("node", args) },
		"login":     func() error { return login(s, number) },
		"node":      func() error { return node(s, number) },
	}
	chosen := stages[name]
	if chosen == nil {
		return fmt.Errorf("there is no stage %q", name)
	}
	if err := s.complete(bin); err != nil {
		return err
	}
	return chosen()
}

// complete says where everything is.
func (s *settings) complete(bin string) (err error) {
	s.Cache, s.Programs, s.Kanzen = filepath.Join(bin, "kubeadm"), filepath.Join(bin, "conformance", "bin"), filepath.Join(bin, "kanzen")
	s.Out = filepath.Join(s.Cache, "results", s.server())
	if err := s.Complete(); err != nil {
		return err
	}
	if s.evidence != "" {
		s.evidence, err = filepath.Abs(s.evidence)
	}
	return err
}

// server is the name of the server in results.
func (s settings) server() string {
	if s.peer {
		return evidence.Peer
	}
	return evidence.Kanzen
}

// outer makes programs and images, runs the machine, and removes what it leaves.
func outer(s settings, args []string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if os.Geteuid() != 0 {
		return errors.New("nodes need root: their programs make namespaces, mounts and control groups")
	}
	if _, err := os.Stat(s.Kanzen); err != nil {
		return fmt.Errorf("make build builds kanzen: %w", err)
	}
	if err := os.MkdirAll(s.Cache, 0o755); err != nil {
		return err
	}
	if s.build {
		if err := suite.Install(ctx, machine.Packages); err != nil {
			return err
		}
		if err := machine.Build(ctx, s.Layout, "kubeadm", "kubelet", "kube-proxy", "kube-controller-manager", "kube-scheduler", "kube-apiserver", "kubectl", "etcd", "agnhost"); err != nil {
			return err
		}
	}
	if err := errors.Join(makeImages(s), makeReleased(ctx, s)); err != nil {
		return err
	}
	clean := func() error { return errors.Join(machine.RemoveCgroups(group), os.RemoveAll(s.Run())) }
	if err := clean(); err != nil {
		return fmt.Errorf("removing what a former run left: %w", err)
	}
	if err := errors.Join(os.RemoveAll(s.Out), os.MkdirAll(s.Out, 0o755), os.MkdirAll(s.Run(), 0o755)); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	folder, err := os.Getwd()
	if err != nil {
		return err
	}
	restore := machine.KeepTunables()
	defer func() { err = errors.Join(err, restore(), clean()) }()
	if err := machine.Outside(ctx, args, func(pid int) {
		if s.hold {
			fmt.Printf("to log in on node 1 (of 4):\n  nsenter -t %d -m -n -u -i -p --wd=%s %s stage login -node=1\n", pid, folder, program)
		}
	}); err != nil {
		return machine.ErrSaid // the stage has said it
	}
	return nil
}
