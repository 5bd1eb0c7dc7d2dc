package main

import (
	"bytes"
	"io"
	"regexp"

	"github.com/spf13/cobra"
	"k8s.io/kubectl/pkg/util/term"
)

// asKanzen is what 'kanzen kubectl' runs this program as. There may be no other kubectl: what it tells the user to type begins with this.
const asKanzen = "kanzen kubectl"

// typedCommand is a command line in kubectl's texts: what stands around the name tells it from sentences about kubectl.
var typedCommand = regexp.MustCompile(`(?m)(^\s*|[|&;("'` + "`" + `] ?|until |perform )kubectl( [a-z<-])`)

// speakAsKanzen makes usage, help and errors name commands as they are typed after 'kanzen kubectl'. kubectl's own code puts the display
// name into usage lines and most errors; its examples and some of its sentences have the name written out.
func speakAsKanzen(root *cobra.Command) {
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: asKanzen}
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		out := c.OutOrStdout()
		var text bytes.Buffer
		c.SetOut(&text)
		help(c, args)
		c.SetOut(out)
		// Wraps lines on a terminal, as kubectl does.
		_, _ = io.WriteString(term.NewResponsiveWriter(out), asTyped(text.String()))
	})
	if c, _, err := root.Find([]string{"completion"}); err == nil {
		c.Long = "'kanzen completion SHELL' completes 'kanzen kubectl' too. This prints the completion of the name kubectl, for an alias of that name " +
			"or a link to kanzen-kubectl."
		c.Example = ""
	}
}

func asTyped(text string) string { return typedCommand.ReplaceAllString(text, "${1}"+asKanzen+"${2}") }
