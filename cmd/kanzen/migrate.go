package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/kanzen-io/kanzen/internal/config"
	"github.com/kanzen-io/kanzen/internal/snapshot"
)

func migrateCommand() *cobra.Command {
	dir, to := config.Standalone().DataDir, ""
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Move a data directory from etcd to pebble or back",
		Long: `Converts the database in --data-dir to the other engine. No server may be running
on the directory. All revisions and the existing history are kept, so clients
resume their watches. The old database stays in the directory under another name.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to != config.EngineEtcd && to != config.EnginePebble {
				return fmt.Errorf("--to: say %s or %s", config.EngineEtcd, config.EnginePebble)
			}
			if dir == "" {
				return errors.New("--data-dir: name the server's data directory")
			}
			abs, err := filepath.Abs(dir)
			if err != nil {
				return err
			}
			m, err := snapshot.Move(cmd.Context(), abs, to, nil)
			if err != nil {
				return err
			}
			tell(cmd.OutOrStdout(), "%s now uses %s: %d keys at revision %d\nThe %s database is kept in %s; remove it when all is well.\n", abs, m.To, m.Keys, m.Revision, m.From, m.Kept)
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", dir, "Data directory of the server.")
	cmd.Flags().StringVar(&to, "to", to, "Engine to move to: etcd or pebble.")
	cmd.SetUsageFunc(usage)
	return cmd
}
