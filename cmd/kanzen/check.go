package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
	"github.com/kanzen-io/kanzen/internal/process/config"
)

func checkCommand() *cobra.Command {
	dir := config.Standalone().DataDir
	var r read
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the database of a data directory for damage",
		Long: `Reads the whole database in --data-dir: checksums, every key and revision, and
the references to them. Then it decodes every object, which must have the kind,
namespace and name that its key says, and a custom resource must have a
definition. Encrypted objects are decoded if you name the configuration. No
server may be running on the directory. The exit code is 1 if something is wrong.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return errors.New("--data-dir: name the server's data directory")
			}
			k, done, err := r.kinds(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			c, err := snapshot.Check(cmd.Context(), dir, k, r.encryption != "")
			if err != nil {
				return err
			}
			for _, f := range c.Faults {
				tell(cmd.OutOrStdout(), "%s: %s\n", f.Key, f.Err)
			}
			if c.Faulty > 0 {
				return fmt.Errorf("%d of the %d objects of %s in %s are damaged", c.Faulty, c.Objects.Objects, c.Engine, dir)
			}
			if c.Sealed > 0 {
				tell(cmd.OutOrStdout(), "%d objects are encrypted and were not decoded; --encryption-provider-config decrypts them\n", c.Sealed)
			}
			tell(cmd.OutOrStdout(), "The database of %s in %s is sound: %d keys at revision %d\n", c.Engine, dir, c.Keys, c.Revision)
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", dir, "Data directory of the server.")
	r.add(cmd.Flags(), false)
	cmd.SetUsageFunc(usage)
	return cmd
}
