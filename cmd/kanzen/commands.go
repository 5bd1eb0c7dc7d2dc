package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kanzen-io/kanzen/internal/config"
	"github.com/kanzen-io/kanzen/internal/debug"
	"github.com/kanzen-io/kanzen/internal/server"
	"github.com/kanzen-io/kanzen/internal/version"
)

func rootCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kanzen",
		Short: "The Kubernetes API server in one binary",
		Long: `kanzen is a Kubernetes API server: one binary with everything kube-apiserver
does, on an etcd inside the process or on a cluster.

  kanzen serve         start a server; it says what to type next
  kanzen kubeconfig    print the kubeconfig of its administrator

Started under the name kube-apiserver it takes that program's flags and place;
started under the name etcd it is etcd's own server.`,
		SilenceUsage: true, SilenceErrors: true,
	}
	cmd.CompletionOptions.HiddenDefaultCmd = true
	cmd.AddCommand(serveCommand(), kubeconfigCommand(), versionCommand(), etcdCommand())
	return cmd
}

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

// apiserverCommand is what the binary is under the name kube-apiserver.
func apiserverCommand() *cobra.Command {
	cfg := config.Default()
	cmd := &cobra.Command{
		Use:          "kube-apiserver",
		Short:        "The Kubernetes API server (kanzen)",
		Args:         cobra.NoArgs,
		SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd, &cfg, func(*server.Server) {})
		},
	}
	cfg.AddFlags(cmd.Flags(), false)
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

// printVersion answers --version as kube-apiserver does.
func printVersion(w io.Writer, cfg *config.Config) {
	info := cfg.VersionInfo()
	if cfg.ShowVersion == "raw" {
		fmt.Fprintf(w, "%#v\n", info)
		return
	}
	fmt.Fprintln(w, "Kubernetes "+info.GitVersion)
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

func kubeconfigCommand() *cobra.Command {
	dir := config.Standalone().DataDir
	cmd := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print the kubeconfig of a server's administrator",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := os.ReadFile(filepath.Join(dir, "pki", "admin.kubeconfig"))
			if os.IsNotExist(err) {
				return fmt.Errorf("no server has been started on %s yet; 'kanzen serve' makes the kubeconfig", dir)
			}
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(b)
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", dir, "Data directory of the server.")
	cmd.SetUsageFunc(usage)
	return cmd
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of kanzen and of the API it serves",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			i := version.Info()
			fmt.Fprintf(cmd.OutOrStdout(), "kanzen %s\nKubernetes %s\n%s %s\n", version.Kanzen, i.GitVersion, i.GoVersion, i.Platform)
		},
	}
}

// etcdCommand is here for the help; main runs it before cobra sees its flags.
func etcdCommand() *cobra.Command {
	return &cobra.Command{Use: "etcd", Short: "etcd's own server, with etcd's own flags", DisableFlagParsing: true,
		Run: func(*cobra.Command, []string) {}}
}

// usage prints flags one a line, beginning with two spaces and the name, as
// programs that look for flags expect.
func usage(cmd *cobra.Command) error {
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "Usage:\n  %s [flags]\n\nFlags:\n", cmd.CommandPath())
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		text := f.Usage
		if f.DefValue != "" && f.DefValue != "[]" && f.DefValue != "false" && f.DefValue != "<nil>" && f.DefValue != "0" && f.DefValue != "0s" {
			text += " (default " + strings.Trim(f.DefValue, "[]") + ")"
		}
		fmt.Fprintf(w, "  --%s %s\n        %s\n", f.Name, f.Value.Type(), text)
	})
	return nil
}
