package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd"
)

// TestWords reads the help of every command: what stands alone on a line, or in quotes, begins with what the user types.
func TestWords(t *testing.T) {
	root := cmd.NewKubectlCommand(cmd.KubectlOptions{IOStreams: genericiooptions.NewTestIOStreamsDiscard()})
	speakAsKanzen(root)
	other := regexp.MustCompile(`(?m)^ *kubectl [a-z<-].*|["']kubectl [a-z<-].*`)
	n := 0
	eachCommand(root, func(c *cobra.Command) {
		var out bytes.Buffer
		c.SetOut(&out)
		if err := c.Help(); err != nil {
			t.Error(err)
		}
		n += strings.Count(out.String(), asKanzen+" ")
		if strings.Contains(out.String(), "kanzen "+asKanzen) {
			t.Errorf("%s: twice in\n%s", c.CommandPath(), out.String())
		}
		for _, line := range other.FindAllString(out.String(), -1) {
			t.Errorf("%s: %s", c.CommandPath(), line)
		}
	})
	if n < 500 {
		t.Errorf("%d lines of all help texts begin with %q", n, asKanzen)
	}
}

func TestAsTyped(t *testing.T) {
	for text, want := range map[string]string{
		"  kubectl get pods":                     "  kanzen kubectl get pods",
		"  cat a.json | kubectl apply -f -":      "  cat a.json | kanzen kubectl apply -f -",
		`Use "kubectl <command> --help"`:         `Use "kanzen kubectl <command> --help"`,
		"  until kubectl wait pod/a; do :; done": "  until kanzen kubectl wait pod/a; do :; done",
		"--field-manager='kubectl-run'":          "--field-manager='kubectl-run'",
		"When localhost is given, kubectl will":  "When localhost is given, kubectl will",
		"Usage:\n  kanzen kubectl get [options]": "Usage:\n  kanzen kubectl get [options]",
	} {
		if got := asTyped(text); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}

func eachCommand(c *cobra.Command, do func(*cobra.Command)) {
	do(c)
	for _, below := range c.Commands() {
		eachCommand(below, do)
	}
}
