package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/kanzen-io/kanzen/internal/version"
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
			date := time.Unix(0, 0).UTC() // as in every build
			return doc.GenManTree(cmd.Root(), &doc.GenManHeader{Section: "1", Source: "kanzen " + version.Kanzen, Manual: "kanzen", Date: &date}, args[0])
		},
	}
}
