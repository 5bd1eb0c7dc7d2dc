package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/process"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/server"
	"github.com/kanzen-io/kanzen/internal/store/memory"
)

func testCommand() *cobra.Command {
	cfg := config.Standalone()
	cfg.DataDir, cfg.SecurePort, cfg.WarnWorkloads, cfg.History = "", 0, false, 0
	all, held := false, false
	cmd := &cobra.Command{
		Use:   "test [flags] -- COMMAND [ARGUMENTS]",
		Short: "Run a command with a fresh server of its own",
		Long: `Starts a server that keeps all data in memory, and runs a command with KUBECONFIG
set to it. The server stops when the command ends. Signals are passed on to the
command, and the exit code is that of the command.

  kanzen test -- pytest
  kanzen test -- kubectl get namespaces

With --until-stdin-closes a test kit runs the server without a command.`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case all:
				return nil
			case held:
				return cobra.NoArgs(cmd, args)
			}
			return cobra.MinimumNArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if all {
				return usageByGroup(cmd)
			}
			if held {
				return runTest(cmd, cfg, func(s *server.Plane) error {
					return serveUntil(cmd.Context(), s, cmd.InOrStdin(), cmd.OutOrStdout())
				})
			}
			path, err := exec.LookPath(args[0])
			if err != nil {
				return err
			}
			return runTest(cmd, cfg, func(s *server.Plane) error {
				return runWith(s, path, args, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
			})
		},
	}
	cfg.AddFlags(cmd.Flags(), true)
	cmd.Flags().BoolVar(&held, "until-stdin-closes", false, "Run no command: print the path of the administrator's kubeconfig, and serve until standard input closes. It closes when the parent process ends, however that happens.")
	cmd.Flags().BoolVar(&all, "help-all", false, "Show all flags.")
	cmd.Flags().SetInterspersed(false) // flags after the command are its own
	cmd.SetUsageFunc(shortUsage)
	return cmd
}

// runTest starts a server, uses it, and stops it.
func runTest(cmd *cobra.Command, cfg config.Config, use func(*server.Plane) error) (err error) {
	dir, err := os.MkdirTemp("", "kanzen-test-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	given := process.Given{Clock: clock.RealClock{}}
	if cfg.DataDir == "" && cfg.Embedded() {
		db := memory.New(clock.RealClock{})
		defer func() { err = errors.Join(err, db.Close()) }()
		given.DB = db
	}
	if cfg.DataDir == "" {
		cfg.DataDir = filepath.Join(dir, "data")
	}
	v, err := verbosity(cmd.Flags())
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: v}))
	limitHeap()
	collectLater()
	root, plane, err := cfg.Validate()
	if err != nil {
		return err
	}
	ground, err := process.OpenWith(context.WithoutCancel(cmd.Context()), root, log, v, given)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ground.Close()) }()
	below := newBelow(plane, ground)
	s := server.New(plane, ground, below.seams())
	if err := s.Start(cmd.Context()); err != nil {
		return err
	}
	below.start(s, log)
	failed := use(s)
	return errors.Join(below.stop(), s.Stop(), failed)
}

// serveUntil prints the path of the administrator's kubeconfig, and returns when the input ends.
func serveUntil(ctx context.Context, s *server.Plane, in io.Reader, out io.Writer) error {
	// If the reader has died by now, there is still a directory to be removed.
	signal.Ignore(syscall.SIGPIPE)
	tell(out, "%s\n", s.Kubeconfig())
	closed := make(chan struct{})
	go func() { // nothing interrupts a read of standard input; the process ends soon after
		defer close(closed)
		_, _ = io.Copy(io.Discard, in)
	}()
	select {
	case <-closed:
	case <-ctx.Done():
	case <-s.Done():
	}
	return nil
}

// killAfter is how long a command may go on after its server has ended.
const killAfter = 10 * time.Second

// runWith runs a command on a server and passes signals on to it: the command decides how a signal ends it, and the
// server ends after it.
func runWith(s *server.Plane, path string, args []string, in io.Reader, out, errs io.Writer) error {
	c := exec.Command(path, args[1:]...)
	c.Args[0] = args[0]
	c.Stdin, c.Stdout, c.Stderr = in, out, errs
	c.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig())
	c.WaitDelay = killAfter
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	// A terminal sends its signals to the command too, which would get them twice.
	terminal := term.IsTerminal(int(os.Stdin.Fd()))
	defer signal.Stop(signals)
	if err := c.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	passed := make(chan struct{})
	go func() {
		defer close(passed)
		for {
			select {
			case sig := <-signals:
				if terminal && (sig == os.Interrupt || sig == syscall.SIGQUIT) {
					continue
				}
				_ = c.Process.Signal(sig) // it may have ended
			case <-done:
				return
			}
		}
	}()
	err := c.Wait()
	close(done)
	<-passed
	return err
}
