//go:build linux

// Operators installs whole operators of other projects by their own manifests and uses them as their users do, on kanzen or on kube-apiserver.
// It is run in test/, as root:
//
//	go run ./operators [flags] [OPERATOR...]
//
// See docs/operators.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kanzen-io/kanzen/test/evidence"
	"github.com/kanzen-io/kanzen/test/machine"
	"github.com/kanzen-io/kanzen/test/suite"
)

// settings are what flags say.
type settings struct {
	peer     bool
	hold     bool
	limit    time.Duration
	evidence string
	names    []string // of operators
}

func main() {
	log.SetLogger(logr.Discard()) // of the client, which logs warnings
	machine.Main(mainStage)
}

// mainStage runs the stage that the arguments name.
func mainStage(args []string) error {
	name, args := machine.Chosen(args)
	if name == podStage {
		return runPod(args)
	}
	var s settings
	l := machine.Layout{}
	flags := flag.NewFlagSet("operators", flag.ContinueOnError)
	flags.BoolVar(&s.peer, "peer", false, "run kube-apiserver in place of kanzen")
	flags.BoolVar(&s.hold, "hold", false, "keep the operator and its server after the last step until Ctrl-C")
	flags.DurationVar(&s.limit, "limit", 10*time.Minute, "how long a step may take")
	flags.StringVar(&l.Kanzen, "kanzen", "../bin/kanzen", "kanzen")
	flags.StringVar(&s.evidence, "evidence", "../docs/evidence/operators.json", "file of evidence, to which the results are added; none if empty")
	flags.StringVar(&l.Cache, "cache", "../bin/operators", "folder of programs, logs and the data of a run")
	flags.StringVar(&l.Peer, "peer-programs", "../bench/peer/bin", "folder of the programs of Kubernetes")
	if err := flags.Parse(args); err != nil {
		return machine.ErrSaid // the flag set has said it
	}
	s.names = flags.Args()
	stages := map[string]func() error{
		"outer": func() error { return outer(l, s, args) },
		"init":  func() error { return machine.Initialize("use", args) },
		"use":   func() error { return use(l, s) },
	}
	chosen := stages[name]
	if chosen == nil {
		return fmt.Errorf("there is no stage %q", name)
	}
	if err := complete(&l, &s); err != nil {
		return err
	}
	return chosen()
}

// complete makes paths absolute, and says what is wrong.
func complete(l *machine.Layout, s *settings) error {
	for _, name := range s.names {
		if _, err := named(name); err != nil {
			return err
		}
	}
	if len(s.names) == 0 {
		for _, o := range operators {
			s.names = append(s.names, o.name)
		}
	}
	if s.hold && len(s.names) != 1 {
		return errors.New("-hold: name the operator that is to stay")
	}
	l.Programs = filepath.Join(l.Cache, "programs")
	l.Out = filepath.Join(l.Cache, s.server())
	var err error
	if s.evidence != "" {
		s.evidence, err = filepath.Abs(s.evidence)
	}
	return errors.Join(err, l.Complete())
}

// server is the name of the server in results.
func (s settings) server() string {
	if s.peer {
		return evidence.Peer
	}
	return evidence.Kanzen
}

// packages are those of Debian whose programs are called, by a file that each brings.
var packages = map[string]string{"/sbin/ip": "iproute2", "/bin/mount": "mount", "/usr/bin/make": "make"}

// outer builds, and uses the operators one after the other, each on a machine of its own.
func outer(l machine.Layout, s settings, args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if os.Geteuid() != 0 {
		return errors.New("this needs root: operators run in namespaces of their own")
	}
	if _, err := os.Stat(l.Kanzen); err != nil && !s.peer {
		return fmt.Errorf("make build builds kanzen: %w", err)
	}
	if err := suite.Install(ctx, packages); err != nil {
		return err
	}
	if err := buildCommon(ctx, l, s.peer); err != nil {
		return err
	}
	flags := args[:len(args)-trailing(args, s.names)]
	var failing []string
	for _, name := range s.names {
		o, err := named(name)
		if err != nil {
			return err
		}
		if err := suite.Install(ctx, o.packages); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := build(ctx, l, o); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		result, err := useOn(ctx, l, s, slices.Concat(flags, []string{name}), o)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		differs, err := keep(l, s, o, result)
		if err != nil {
			return err
		}
		if differs {
			failing = append(failing, name)
		}
	}
	if len(failing) > 0 {
		return fmt.Errorf("steps fail with %v; logs are in %s", failing, l.Out)
	}
	return nil
}

// trailing is how many of the arguments are names of operators: all of them come last, or there are none.
func trailing(args, names []string) int {
	if len(args) >= len(names) && slices.Equal(args[len(args)-len(names):], names) {
		return len(names)
	}
	return 0
}

// useOn runs the machine of an operator, and reads what became of the steps.
func useOn(ctx context.Context, l machine.Layout, s settings, args []string, o *operator) (*result, error) {
	out := withOut(l, o)
	if err := errors.Join(os.RemoveAll(l.Run()), os.RemoveAll(out.Out), os.MkdirAll(out.Out, 0o755), os.MkdirAll(l.Run(), 0o755)); err != nil {
		return nil, err
	}
	defer os.RemoveAll(l.Run())
	if err := machine.Outside(ctx, args, func(pid int) {
		if s.hold {
			fmt.Printf("the operator stays until Ctrl-C; to use its server:\n  nsenter -t %d -m -n -p kubectl --kubeconfig=%s get pods -A\n", pid, l.PKI("admin.kubeconfig"))
		}
	}); err != nil {
		return nil, machine.ErrSaid // the stage has said it
	}
	return readResult(out)
}

// withOut has logs and results of an operator in a folder of its own.
func withOut(l machine.Layout, o *operator) machine.Layout {
	l.Out = filepath.Join(l.Out, o.name)
	return l
}

// use is the stage that has a server and an operator on it, and uses the operator.
func use(l machine.Layout, s settings) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o, err := named(s.names[0])
	if err != nil {
		return err
	}
	l = withOut(l, o)
	// Nothing can go on when a program of the control plane has ended.
	ended := func(name string, err error) {
		if ctx.Err() == nil {
			cancel(fmt.Errorf("%s ended: %w; its log is %s", name, errors.Join(err, machine.ErrSaid), l.Log(name)))
		}
	}
	w, err := newWorld(ctx, l, o, s.peer, ended)
	if err != nil {
		return err
	}
	result, err := w.useAll(ctx, s.limit)
	if err == nil {
		err = result.write(l)
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err == nil && s.hold {
		<-ctx.Done()
	}
	return err
}
