package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kanzen-io/kanzen/internal/process/config"
)

// usage prints flags one a line, beginning with two spaces and the name, as
// programs that look for flags expect.
func usage(cmd *cobra.Command) error {
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "Usage:\n  %s [flags]\n\nFlags:\n", cmd.CommandPath())
	cmd.Flags().VisitAll(func(f *pflag.Flag) { printFlag(w, f) })
	return nil
}

// usageByGroup prints all flags by what they are about.
func usageByGroup(cmd *cobra.Command) error {
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "Usage:\n  %s\n", cmd.UseLine())
	var groups []string
	flags := map[string][]*pflag.Flag{}
	cmd.Flags().SortFlags = false // groups in the order in which they were added
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		g := config.Group(f)
		if len(flags[g]) == 0 {
			groups = append(groups, g)
		}
		flags[g] = append(flags[g], f)
	})
	for _, g := range groups {
		fmt.Fprintf(w, "\n%s:\n", g)
		if g == config.WithoutEffect {
			printNames(w, flags[g])
			continue
		}
		for _, f := range flags[g] {
			printFlag(w, f)
		}
	}
	return nil
}

func printFlag(w io.Writer, f *pflag.Flag) {
	if f.Hidden {
		return
	}
	text := f.Usage
	if f.Deprecated != "" {
		text += " (deprecated: " + f.Deprecated + ")"
	}
	if d := defaultOf(f); d != "" && !strings.Contains(text, "(default") {
		text += " (default " + d + ")"
	}
	fmt.Fprintf(w, "  %s\n        %s\n", title(f), text)
}

// printNames prints flags that need no explanation, one a line.
func printNames(w io.Writer, flags []*pflag.Flag) {
	for _, f := range flags {
		fmt.Fprintf(w, "  %s\n", title(f))
	}
}

func title(f *pflag.Flag) string {
	if f.Value.Type() == "bool" {
		return "--" + f.Name
	}
	return "--" + f.Name + " " + f.Value.Type()
}

// defaultOf returns a default as kube-apiserver's help has it; "" for those that it does not show.
func defaultOf(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "[]", "false", "<nil>", "0", "0s":
		return ""
	}
	if f.Value.Type() == "string" {
		return fmt.Sprintf("%q", f.DefValue)
	}
	return f.DefValue
}

// wanted are the flags that most people want, by what they are about, and what they are in a few words.
var wanted = []struct {
	group string
	flags [][2]string
}{
	{"Data", [][2]string{
		{"data-dir", "directory for all data, keys and certificates"},
		{"etcd-servers", "URLs of an etcd cluster; if unset, etcd runs in this process"},
		{"encryption-provider-config", "file that says what to encrypt in etcd"},
	}},
	{"Address", [][2]string{
		{"bind-address", "address to listen on"},
		{"secure-port", "port to serve HTTPS on; 0 means any free port"},
		{"tls-cert-file", "serving certificate; if unset, the server makes one"},
		{"tls-private-key-file", "key of the serving certificate"},
	}},
	{"Users", [][2]string{
		{"client-ca-file", "authorities of client certificates; if unset, the server makes one"},
		{"authentication-config", "file that says whose tokens to accept (OIDC)"},
		{"authorization-mode", "how to authorize requests"},
	}},
	{"What runs", [][2]string{
		{"controllers", "controllers to run; '*,-name' leaves one out, '' runs none"},
		{"enable-admission-plugins", "admission plugins in addition to the default ones"},
		{"feature-gates", "name=true|false,..."},
	}},
	{"Logs", [][2]string{
		{"audit-log-path", "file for the audit log; '-' means standard output"},
		{"logging-format", "text or json"},
		{"v", "verbosity: 0 warnings, 1 information, 3 each request, 4 everything"},
	}},
}

// shortUsage prints the flags that most people want, on one screen.
func shortUsage(cmd *cobra.Command) error {
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "Usage:\n  %s\n", cmd.UseLine())
	for _, group := range wanted {
		fmt.Fprintf(w, "\n%s:\n", group.group)
		for _, flag := range group.flags {
			text := flag[1]
			if d := strings.Trim(defaultOf(cmd.Flags().Lookup(flag[0])), `"[]`); d != "" {
				text += " (" + d + ")"
			}
			fmt.Fprintf(w, "  --%-27s %s\n", flag[0], text)
		}
	}
	fmt.Fprintf(w, "\nFor all flags, including kube-apiserver's: %s --help-all\n", cmd.CommandPath())
	return nil
}
