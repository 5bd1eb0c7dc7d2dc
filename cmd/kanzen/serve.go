package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/backup/snapshot/keyfile"
	"github.com/kanzen-io/kanzen/internal/base/logs"
	"github.com/kanzen-io/kanzen/internal/base/version"
	"github.com/kanzen-io/kanzen/internal/chain/debug"
	"github.com/kanzen-io/kanzen/internal/process"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/server"
)

func serveCommand() *cobra.Command {
	cfg := config.Standalone()
	all := false
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Start a server, which creates everything it needs below --data-dir",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if all {
				return usageByGroup(cmd)
			}
			if cfg.DataDir == "" {
				return errors.New("--data-dir: name a directory; there is no home directory to keep data in")
			}
			var err error
			if cfg.DataDir, err = filepath.Abs(cfg.DataDir); err != nil {
				return fmt.Errorf("--data-dir: %w", err)
			}
			return serve(cmd, &cfg, func(s *server.Plane) { greet(cmd.OutOrStdout(), s, cfg.DataDir) })
		},
	}
	cfg.AddFlags(cmd.Flags(), true)
	cmd.Flags().BoolVar(&all, "help-all", false, "Show all flags.")
	cmd.SetUsageFunc(shortUsage)
	return cmd
}

func serve(cmd *cobra.Command, cfg *config.Config, started func(*server.Plane)) error {
	if cfg.ShowVersion != "" {
		printVersion(cmd.OutOrStdout(), cfg)
		return nil
	}
	limitHeap()
	collectLater()
	cfg.Flags = map[string]string{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) { cfg.Flags[f.Name] = f.Value.String() })
	root, plane, err := cfg.Validate()
	if err != nil {
		return err
	}
	v, err := verbosity(cmd.Flags())
	if err != nil {
		return err
	}
	scr := newScreen(cmd.ErrOrStderr())
	handler, err := scr.handler(root.LoggingFormat, v)
	if err != nil {
		return err
	}
	defer scr.show("")
	log := slog.New(handler)
	klog.SetSlogLogger(log) // libraries of Kubernetes
	slog.SetDefault(log)    // and others, by package log
	up := logs.Step(log, clock.RealClock{}, "starting", "serving", "kanzen", version.Kanzen, "kubernetes", version.Kubernetes)
	plane.WarnIgnored(cmd.Flags(), log)
	if root.Profiling && root.ContentionProfiling {
		runtime.SetBlockProfileRate(1) // of the process, as profiles are
	}
	ground, err := process.Open(cmd.Context(), root, log, v)
	if err != nil {
		return err
	}
	ground.SealKeys = keyfile.NewSealer
	below := newBelow(plane, ground)
	s := server.New(plane, ground, below.seams())
	context.AfterFunc(cmd.Context(), func() { notify(log, "STOPPING=1") })
	if err := s.Start(cmd.Context()); err != nil {
		if errors.Is(err, context.Cause(cmd.Context())) {
			err = nil // it was to end before it was ready, and did
		}
		return errors.Join(err, ground.Close())
	}
	below.start(s, log)
	up()
	scr.show("")
	notify(log, "READY=1")
	started(s)
	giveBack()
	select {
	case <-cmd.Context().Done():
	case <-s.Done():
	}
	return errors.Join(below.stop(), s.Stop(), ground.Close())
}

// verbosity is how much to log: the number of -v.
func verbosity(fs *pflag.FlagSet) (*debug.Verbosity, error) {
	n := 0
	if f := fs.Lookup("v"); f != nil {
		var err error
		if n, err = strconv.Atoi(f.Value.String()); err != nil {
			return nil, fmt.Errorf("--v: %q is not a whole number", f.Value)
		}
	}
	return debug.NewVerbosity(n), nil
}

// greet says in three lines what to type next.
func greet(w io.Writer, s *server.Plane, dataDir string) {
	arg := ""
	if dataDir != config.Standalone().DataDir {
		arg = " --data-dir " + shellWord(dataDir)
	}
	tell(w, `kanzen %s serves Kubernetes %s at %s (Ctrl-C stops it)
  export KUBECONFIG=%s
  kubectl get namespaces        # or: kanzen kubectl%s get namespaces
`, version.Kanzen, version.Kubernetes, s.URL(), shellWord(s.Kubeconfig()), arg)
}
