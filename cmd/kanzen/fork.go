package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kanzen-io/kanzen/internal/engine/forks"
)

func forkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fork",
		Short: "Copies of a server to try things on",
		Long: `A fork is a copy of everything that a server holds, made in a moment. What is
written to it has no effect outside. It is in memory and ends by itself.

  kanzen fork create try                        lives for an hour
  kanzen fork kubeconfig try > try.kubeconfig   for kubectl and any other client
  kanzen fork diff try                          what was changed there
  kanzen fork merge try                         brought back into the server
  kanzen fork delete try`,
		Args: commandsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(forkCreateCommand(), forkListCommand(), forkKubeconfigCommand(), forkDiffCommand(), forkMergeCommand(), forkDeleteCommand())
	return cmd
}

// forkPath is the path of a fork.
func forkPath(name string) string { return forks.Path + "/" + url.PathEscape(name) }

// askForks asks for something of forks.
func (a *asker) askForks(ctx context.Context, method, path string, into any) error {
	err := a.ask(ctx, method, path, "", nil, into)
	var refused *refusedError
	if errors.As(err, &refused) && refused.code == http.StatusNotFound && path == forks.Path {
		return errors.New("the server has no forks (--extensions)")
	}
	return err
}

func forkCreateCommand() *cobra.Command {
	var a asking
	var ttl time.Duration
	var at string
	cmd := &cobra.Command{Use: "create NAME", Short: "Make a fork", Args: cobra.ExactArgs(1)}
	a.add(cmd.Flags(), false)
	cmd.Flags().DurationVar(&ttl, "ttl", time.Hour, "How long the fork lives.")
	cmd.Flags().StringVar(&at, "at", "", "Copy what the server held at a moment: a time (2026-01-02T15:04:05Z), a duration (2h: so long ago) or a resourceVersion; empty: now.")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := a.open()
		if err != nil {
			return err
		}
		var info forks.Info
		query := url.Values{"ttl": {ttl.String()}}
		if at != "" {
			query.Set("at", at)
		}
		if err := s.askForks(cmd.Context(), http.MethodPost, forkPath(args[0])+"?"+query.Encode(), &info); err != nil {
			return err
		}
		if a.output == "json" {
			return printJSON(cmd.OutOrStdout(), info)
		}
		tell(cmd.OutOrStdout(), "fork %s was made of revision %s. It lives until %s.\n", info.Name, info.ResourceVersion, info.Expires.Local().Format(time.DateTime))
		return nil
	}
	return cmd
}

func forkListCommand() *cobra.Command {
	var a asking
	cmd := &cobra.Command{Use: "list", Short: "List the forks of a server", Args: cobra.NoArgs}
	a.add(cmd.Flags(), false)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, err := a.open()
		if err != nil {
			return err
		}
		var list struct {
			Items []forks.Info `json:"items"`
		}
		if err := s.askForks(cmd.Context(), http.MethodGet, forks.Path, &list); err != nil {
			return err
		}
		if a.output == "json" {
			return printJSON(cmd.OutOrStdout(), list)
		}
		t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 3, ' ', 0)
		tell(t, "NAME\tCREATOR\tREVISION\tEXPIRES\n")
		for _, i := range list.Items {
			tell(t, "%s\t%s\t%s\t%s\n", i.Name, i.Creator, i.ResourceVersion, i.Expires.Local().Format(time.DateTime))
		}
		return t.Flush()
	}
	return cmd
}

func forkDeleteCommand() *cobra.Command {
	var a asking
	cmd := &cobra.Command{Use: "delete NAME", Short: "End a fork", Args: cobra.ExactArgs(1)}
	a.add(cmd.Flags(), false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := a.open()
		if err != nil {
			return err
		}
		if err := s.askForks(cmd.Context(), http.MethodDelete, forkPath(args[0]), &struct{}{}); err != nil {
			return err
		}
		if a.output == "" {
			tell(cmd.OutOrStdout(), "fork %s is gone.\n", args[0])
		}
		return nil
	}
	return cmd
}

func forkKubeconfigCommand() *cobra.Command {
	var a asking
	cmd := &cobra.Command{
		Use: "kubeconfig NAME", Short: "Print your kubeconfig for a fork", Args: cobra.ExactArgs(1),
		Long: "Prints the kubeconfig that the command uses itself, with the fork in the place of\nthe server: your user and credentials are the same there.",
	}
	a.add(cmd.Flags(), false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := a.open()
		if err != nil {
			return err
		}
		var info forks.Info
		if err := s.askForks(cmd.Context(), http.MethodGet, forkPath(args[0]), &info); err != nil {
			return err
		}
		rules, err := kubeconfigRules(a.kubeconfig, a.dir)
		if err != nil {
			return err
		}
		raw, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).RawConfig()
		if err != nil {
			return err
		}
		out, err := ofFork(&raw, info.Name)
		if err != nil {
			return err
		}
		text, err := clientcmd.Write(*out)
		if err == nil {
			_, err = cmd.OutOrStdout().Write(text)
		}
		return err
	}
	return cmd
}

// ofFork is the current context of a kubeconfig alone, with a fork in the place of its server.
func ofFork(c *clientcmdapi.Config, name string) (*clientcmdapi.Config, error) {
	if err := clientcmdapi.MinifyConfig(c); err != nil {
		return nil, err
	}
	if err := clientcmdapi.FlattenConfig(c); err != nil {
		return nil, err
	}
	for _, cluster := range c.Clusters {
		u, err := url.Parse(cluster.Server)
		if err != nil {
			return nil, fmt.Errorf("the server of the kubeconfig: %w", err)
		}
		cluster.Server = u.JoinPath(forks.Path, name).String()
	}
	return c, nil
}

func forkDiffCommand() *cobra.Command {
	var a asking
	cmd := &cobra.Command{Use: "diff NAME", Short: "Show what is different in a fork", Args: cobra.ExactArgs(1),
		Long: "Shows the objects that were written in a fork, with the fields in which they\ndiffer from those that the server has now. It is kanzen diff --fork NAME."}
	a.add(cmd.Flags(), false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := a.open()
		if err != nil {
			return err
		}
		c := &comparison{server: s, sides: [2]side{{asker: s}, s.forkSide(args[0])}}
		p, err := c.compare(cmd.Context(), &a, nil, false)
		if err != nil {
			return err
		}
		return p.show(cmd.OutOrStdout(), a.output)
	}
	return cmd
}
