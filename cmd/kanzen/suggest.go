package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kanzen-io/kanzen/internal/process/config"
)

// flagError says in one line what is wrong with a flag, and which one may be meant.
func flagError(cmd *cobra.Command, err error) error {
	if invalid := (*pflag.InvalidValueError)(nil); errors.As(err, &invalid) {
		return fmt.Errorf("--%s: %s", invalid.GetFlag().Name, wrongValue(invalid))
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	name := unknown.GetSpecifiedName()
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && config.Group(f) != config.WithoutEffect {
			names = append(names, f.Name)
		}
	})
	if near := nearest(name, names); near != "" && len(name) > 1 {
		return fmt.Errorf("unknown flag: --%s; did you mean --%s?", name, near)
	}
	return fmt.Errorf("%w; '%s --help' lists the flags", err, cmd.CommandPath())
}

// wrongValue says what a flag's value is to be, where its type tells.
func wrongValue(e *pflag.InvalidValueError) string {
	want := ""
	switch e.GetFlag().Value.Type() {
	case "int", "int32", "int64", "uint", "count":
		want = "a whole number"
	case "float32", "float64":
		want = "a number"
	case "bool":
		want = "true or false"
	case "duration":
		want = "a time like 30s, 5m or 1h30m"
	case "ip":
		want = "an IP address"
	case "int32Slice":
		want = "a list of whole numbers"
	case "version":
		if _, isNumber := errors.AsType[*strconv.NumError](errors.Unwrap(e)); isNumber {
			want = "true, false, raw or a version"
			break
		}
		return fmt.Sprintf("%q: %v", e.GetValue(), errors.Unwrap(e))
	default:
		return fmt.Sprintf("%q: %v", e.GetValue(), errors.Unwrap(e))
	}
	return fmt.Sprintf("%q is not %s", e.GetValue(), want)
}

// explainArguments has commands say how they are written if the number of arguments is wrong.
func explainArguments(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			if err == nil || strings.HasPrefix(err.Error(), "unknown command") {
				return err
			}
			return fmt.Errorf("usage: %s; got %d arguments", strings.TrimSuffix(cmd.UseLine(), " [flags]"), len(args))
		}
	}
	for _, c := range cmd.Commands() {
		explainArguments(c)
	}
}

// commandsOnly is for a command that is nothing but a name for others: cobra would print its help for a wrong one, and call that success.
func commandsOnly(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return unknownCommand(cmd, args[0])
}

// showHelp is what such a command does.
func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

func unknownCommand(cmd *cobra.Command, name string) error {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	if near := nearest(name, names); near != "" && name != "" {
		return fmt.Errorf("unknown command %q; did you mean '%s %s'?", name, cmd.CommandPath(), near)
	}
	return fmt.Errorf("unknown command %q; '%s --help' lists the commands", name, cmd.CommandPath())
}

// nearest returns the name that differs least from what was typed; "" if none is close to it.
func nearest(typed string, names []string) string {
	best, least := "", max(len(typed)/3, 2)+1
	for _, n := range names {
		d := distance(strings.ToLower(typed), n)
		if strings.HasPrefix(n, typed+"-") || strings.HasSuffix(n, "-"+typed) {
			d = min(d, 2) // a part of a flag's name
		}
		if d < least {
			best, least = n, d
		}
	}
	return best
}

// distance returns how many letters must be changed, added or removed to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
