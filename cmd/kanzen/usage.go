package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usage prints flags one a line, beginning with two spaces and the name, as
// programs that look for flags expect.
func usage(cmd *cobra.Command) error {
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "Usage:\n  %s [flags]\n\nFlags:\n", cmd.CommandPath())
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		text := f.Usage
		if f.DefValue != "" && f.DefValue != "[]" && f.DefValue != "false" && f.DefValue != "<nil>" && f.DefValue != "0" && f.DefValue != "0s" {
			text += " (default " + strings.Trim(f.DefValue, "[]") + ")"
		}
		fmt.Fprintf(w, "  --%s %s\n        %s\n", f.Name, f.Value.Type(), text)
	})
	return nil
}
