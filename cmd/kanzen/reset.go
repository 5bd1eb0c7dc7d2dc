package main

import (
	"bufio"
	"errors"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/process/datadir"
)

func resetCommand() *cobra.Command {
	dir, yes := config.Standalone().DataDir, false
	cmd := &cobra.Command{
		Use:   "reset",
		Short: "Remove a server's data, keys and certificates",
		Long:  "Removes everything that kanzen created below --data-dir: all objects, keys and\ncertificates. Other files stay.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return errors.New("--data-dir: name the server's data directory")
			}
			dir, err := filepath.Abs(dir)
			if err != nil {
				return err
			}
			r, err := datadir.Reset(dir)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if !yes {
				tell(out, "Remove all objects, keys and certificates of the server in %s? [y/N] ", dir)
				answer, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n') // no answer is a no
				if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
					tell(out, "\n")
					return errors.Join(errors.New("nothing was removed; --yes removes without asking"), r.Close())
				}
			}
			left, err := r.Remove()
			if err != nil {
				return err
			}
			tell(out, "Removed the server's data in %s\n", dir)
			for _, path := range left {
				tell(out, "  kept, because kanzen did not create it: %s\n", path)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", dir, "Data directory of the server.")
	cmd.Flags().BoolVar(&yes, "yes", yes, "Do not ask.")
	cmd.SetUsageFunc(usage)
	return cmd
}
