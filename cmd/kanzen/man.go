package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/kanzen-io/kanzen/internal/base/version"
)

// manCommand writes man pages, for packages.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write man pages into a directory",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			date, err := time.Parse(time.RFC3339, version.Info().BuildDate) // that of the commit: the same in every build of it
			if err != nil {
				return err
			}
			return doc.GenManTree(cmd.Root(), &doc.GenManHeader{Section: "1", Source: "kanzen " + version.Kanzen, Manual: "kanzen", Date: &date}, args[0])
		},
	}
}
