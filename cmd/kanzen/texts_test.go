package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kanzen-io/kanzen/internal/process/config"
)

// TestEveryTextIsOneLine gives each flag of each command that takes a text one with a line break, a control character and,
// where no Kubernetes program has the flag, a space around it. The answer is one line that names the flag.
func TestEveryTextIsOneLine(t *testing.T) {
	n := 0
	for _, root := range []func() *cobra.Command{rootCommand, apiserverCommand} {
		leaves(root(), func(cmd *cobra.Command) {
			cmd.Flags().VisitAll(func(f *pflag.Flag) {
				if config.Group(f) == config.WithoutEffect || !strings.Contains(strings.ToLower(f.Value.Type()), "string") {
					return
				}
				for _, value := range []string{"a\nb", "a\n", "a\x00b", "\ta", " a", "a "} {
					if strings.Contains(value, " ") && (cmd.Name() == "kube-apiserver" || strings.HasPrefix(f.Name, "oidc-")) {
						continue
					}
					n++
					c := root()
					c.SetArgs(append(strings.Fields(cmd.CommandPath())[1:], "--"+f.Name+"="+value))
					c.SetOut(io.Discard)
					c.SetErr(io.Discard)
					err := c.ExecuteContext(t.Context())
					if err == nil {
						t.Errorf("%s --%s=%q is taken", cmd.CommandPath(), f.Name, value)
						continue
					}
					var said bytes.Buffer
					if code := exitCode(&said, err); code != 1 || strings.Count(said.String(), "\n") != 1 || !strings.Contains(said.String(), "--"+f.Name+": ") {
						t.Errorf("%s --%s=%q: exit code %d, %q", cmd.CommandPath(), f.Name, value, code, said.String())
					}
				}
			})
		})
	}
	if n < 1000 {
		t.Errorf("only %d values were tried", n)
	}
}

// TestTextsAreTaken sets what is odd and right.
func TestTextsAreTaken(t *testing.T) {
	for _, c := range []struct {
		root func() *cobra.Command
		args string
	}{
		{rootCommand, "serve|--oidc-username-prefix=oidc: |--snapshot-schedule=0 */6 * * *|--tls-san=a,b|--help-all"},
		{apiserverCommand, "--api-audiences=a, b|--version"},
	} {
		cmd := c.root()
		cmd.SetArgs(strings.Split(c.args, "|"))
		cmd.SetOut(io.Discard)
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Errorf("%s: %v", c.args, err)
		}
	}
}
