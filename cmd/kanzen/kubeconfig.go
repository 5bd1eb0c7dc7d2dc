package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/kanzen-io/kanzen/internal/config"
)

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
