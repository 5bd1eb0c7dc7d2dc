package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/server"
)

// apiserverCommand is what the binary is under the name kube-apiserver.
func apiserverCommand() *cobra.Command {
	cfg := config.Default()
	cmd := &cobra.Command{
		Use:          "kube-apiserver",
		Short:        "The Kubernetes API server (kanzen)",
		Args:         noWords,
		SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd, &cfg, func(*server.Plane) {})
		},
	}
	cfg.AddFlags(cmd.Flags(), false)
	cmd.SetUsageFunc(usageByGroup)
	cmd.SetFlagErrorFunc(flagError)
	checkTexts(cmd, false) // what kube-apiserver takes with spaces goes on being taken
	return cmd
}

// noWords refuses words that are no flags, in kube-apiserver's words. It takes empty ones, which scripts give for variables that are
// not set.
func noWords(cmd *cobra.Command, args []string) error {
	for _, word := range args {
		if word != "" {
			return fmt.Errorf("%q does not take any arguments, got %q", cmd.CommandPath(), args)
		}
	}
	return nil
}
