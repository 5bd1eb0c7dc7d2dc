package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/kanzen-io/kanzen/internal/base/version"
	"github.com/kanzen-io/kanzen/internal/process/config"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of kanzen and of the API that it serves",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			i := version.Info()
			fmt.Fprintf(cmd.OutOrStdout(), "kanzen %s\nKubernetes %s\n%s %s\n", version.Kanzen, i.GitVersion, i.GoVersion, i.Platform)
		},
	}
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
