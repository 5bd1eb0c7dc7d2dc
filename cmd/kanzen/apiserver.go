package main

import (
	"github.com/spf13/cobra"

	"github.com/kanzen-io/kanzen/internal/config"
	"github.com/kanzen-io/kanzen/internal/server"
)

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
	cmd.SetUsageFunc(usageByGroup)
	cmd.SetFlagErrorFunc(flagError)
	checkTexts(cmd, false) // what kube-apiserver takes with spaces goes on being taken
	return cmd
}
