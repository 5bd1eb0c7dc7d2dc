package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/kanzen-io/kanzen/internal/config"
	"github.com/kanzen-io/kanzen/internal/snapshot"
)

func checkCommand() *cobra.Command {
	dir := config.Standalone().DataDir
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the database of a data directory for damage",
		Long: `Reads the whole database in --data-dir: checksums, every key and revision, and
the references to them. No server may be running on the directory. The exit
code is 1 if something is wrong.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return errors.New("--data-dir: name the server's data directory")
			}
			c, err := snapshot.Check(cmd.Context(), dir)
			if err != nil {
				return err
			}
			tell(cmd.OutOrStdout(), "The database of %s in %s is sound: %d keys at revision %d\n", c.Engine, dir, c.Keys, c.Revision)
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", dir, "Data directory of the server.")
	cmd.SetUsageFunc(usage)
	return cmd
}
