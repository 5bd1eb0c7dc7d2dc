//go:build linux

// Conformance runs the specs of Kubernetes' conformance on real nodes: kubelet, containerd, runc, kube-proxy and CoreDNS in namespaces of
// one machine, with kanzen or kube-apiserver as their server. It is run in test/, as root:
//
//	go run ./conformance [flags]
//
// See docs/conformance.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/kanzen-io/kanzen/test/evidence"
	"github.com/kanzen-io/kanzen/test/machine"
	"github.com/kanzen-io/kanzen/test/suite"
)

// settings are what flags say.
type settings struct {
	peer     bool
	focus    string
	procs    int
	nodes    int
	limit    time.Duration
	hold     bool
	build    bool
	evidence string
	skips    []evidence.Reason
}

func main() {
	machine.Main(mainStage)
}

// mainStage runs the stage that the arguments name.
func mainStage(args []string) error {
	name, args := machine.Chosen(args)
	var s settings
	var l layout
	l.Group = cgroups
	number := 0
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	flags.BoolVar(&s.peer, "peer", false, "run kube-apiserver in place of kanzen")
	flags.StringVar(&s.focus, "focus", "", "a regular expression of the specs to run; all if empty")
	flags.IntVar(&s.procs, "procs", 6, "how many specs run at a time, of those that may")
	flags.IntVar(&s.nodes, "nodes", 2, "number of nodes")
	flags.DurationVar(&s.limit, "limit", 90*time.Minute, "how long the parallel specs and the serial ones may each take")
	flags.BoolVar(&s.hold, "hold", false, "run no specs, but keep the cluster until Ctrl-C")
	flags.BoolVar(&s.build, "build", true, "install packages and build programs that are missing; without, images that need them are missing too")
	flags.StringVar(&l.Kanzen, "kanzen", "../bin/kanzen", "kanzen")
	flags.StringVar(&s.evidence, "evidence", "../docs/evidence/conformance.json", "file of evidence, to which a whole run is added; none if empty")
	flags.StringVar(&l.Cache, "cache", "../bin/conformance", "folder of programs, images and the data of a run")
	flags.StringVar(&l.Peer, "peer-programs", "../bench/peer/bin", "folder of the programs of Kubernetes")
	flags.StringVar(&l.Out, "out", "", "folder for what the specs say (default CACHE/results/SERVER)")
	flags.IntVar(&number, "node", 0, "in the stage of a node, which one it is")
	if err := flags.Parse(args); err != nil {
		return machine.ErrSaid // the flag set has said it
	}
	stages := map[string]func() error{
		"outer":   func() error { return outer(l, s, args) },
		"init":    func() error { return machine.Initialize("cluster", args) },
		"cluster": func() error { return cluster(l, s, args) },
		"node":    func() error { return node(l, number, s.nodes) },
	}
	chosen := stages[name]
	if chosen == nil {
		return fmt.Errorf("there is no stage %q", name)
	}
	if err := complete(&l, &s, flags.Args()); err != nil {
		return err
	}
	return chosen()
}

// complete makes paths absolute, and says what is wrong.
func complete(l *layout, s *settings, rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("unknown arguments %v", rest)
	}
	if s.nodes < 1 || s.nodes > 100 {
		return fmt.Errorf("-nodes: there can be 1 to 100, not %d", s.nodes)
	}
	if s.procs < 1 {
		return fmt.Errorf("-procs: at least 1, not %d", s.procs)
	}
	if l.Out == "" {
		l.Out = filepath.Join(l.Cache, "results", s.server())
	}
	l.Programs = filepath.Join(l.Cache, "bin")
	if err := l.Complete(); err != nil {
		return err
	}
	var err error
	if s.evidence != "" {
		if s.evidence, err = filepath.Abs(s.evidence); err != nil {
			return err
		}
	}
	s.skips, err = readSkips(skippedSpecs)
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
func outer(l layout, s settings, args []string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if os.Geteuid() != 0 {
		return errors.New("nodes need root: their programs make namespaces, mounts and control groups")
	}
	if _, err := os.Stat(l.Kanzen); err != nil && !s.peer {
		return fmt.Errorf("make build builds kanzen: %w", err)
	}
	if s.build {
		if err := suite.Install(ctx, machine.Packages); err != nil {
			return err
		}
		if err := build(ctx, l, s.peer); err != nil {
			return err
		}
	}
	missing, err := makeImages(l)
	if err != nil {
		return err
	}
	fmt.Printf("images are made; nothing stands for %s\n", strings.Join(missing, " "))
	if err := clean(l); err != nil {
		return fmt.Errorf("removing what a former run left: %w", err)
	}
	if err := errors.Join(os.RemoveAll(l.Out), os.MkdirAll(l.Out, 0o755), os.MkdirAll(l.Run(), 0o755)); err != nil {
		return err
	}
	restore := machine.KeepTunables()
	defer func() { err = errors.Join(err, restore(), clean(l)) }()
	if err := machine.Outside(ctx, args, func(pid int) {
		if s.hold {
			fmt.Printf("the cluster stays until Ctrl-C; to use it:\n  nsenter -t %d -m -n -p %s --kubeconfig=%s get nodes\n", pid, l.Program("kubectl"), l.PKI("admin.kubeconfig"))
		}
	}); err != nil {
		return machine.ErrSaid // the stage has said it
	}
	return nil
}

// clean removes what stays when the machine has ended: control groups, and the disks of the nodes.
func clean(l layout) error { return errors.Join(machine.RemoveCgroups(l.Group), os.RemoveAll(l.Run())) }
