package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kanzen-io/kanzen/internal/config"
	"github.com/kanzen-io/kanzen/internal/debug"
	"github.com/kanzen-io/kanzen/internal/server"
	"github.com/kanzen-io/kanzen/internal/version"
)

func serveCommand() *cobra.Command {
	cfg := config.Standalone()
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Start a server; all it needs it makes below --data-dir",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd, &cfg, func(s *server.Server) { greet(cmd.OutOrStdout(), s, cfg.DataDir) })
		},
	}
	cfg.AddFlags(cmd.Flags(), true)
	cmd.SetUsageFunc(usage)
	return cmd
}

func serve(cmd *cobra.Command, cfg *config.Config, started func(*server.Server)) error {
	if cfg.ShowVersion != "" {
		printVersion(cmd.OutOrStdout(), cfg)
		return nil
	}
	v := verbosity(cmd.Flags())
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: v}))
	cfg.Flags = map[string]string{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) { cfg.Flags[f.Name] = f.Value.String() })
	cfg.WarnIgnored(cmd.Flags(), log)
	ground, err := server.Open(cmd.Context(), cfg, log, v)
	if err != nil {
		return err
	}
	s, err := server.New(cmd.Context(), cfg, ground)
	if err != nil {
		return errors.Join(err, ground.Close())
	}
	go func() {
		select {
		case <-s.Ready():
			started(s)
		case <-cmd.Context().Done():
		}
	}()
	return errors.Join(s.Run(cmd.Context()), ground.Close())
}

// verbosity is how much to log: the number of -v.
func verbosity(fs *pflag.FlagSet) *debug.Verbosity {
	n := 0
	if f := fs.Lookup("v"); f != nil {
		n, _ = strconv.Atoi(f.Value.String()) // what is no number is 0
	}
	return debug.NewVerbosity(n)
}

// greet says in three lines what to type next.
func greet(w io.Writer, s *server.Server, dataDir string) {
	arg := ""
	if dataDir != config.Standalone().DataDir {
		arg = " --data-dir " + dataDir
	}
	fmt.Fprintf(w, `kanzen %s serves Kubernetes %s at https://%s (Ctrl-C stops it)
  export KUBECONFIG=%s
  kubectl get namespaces        # or: kanzen kubeconfig%s > kubeconfig
`, version.Kanzen, version.Kubernetes, s.Address(), s.Kubeconfig(), arg)
}
