package findings

import (
	"fmt"
	"strings"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// words are arguments of a command that are quoted already.
type words string

// command writes a command. Its texts are quoted: Roles, schedulers of pods and other things may be named so that a shell would
// run their names.
func command(format string, args ...any) string {
	for n, arg := range args {
		if s, ok := arg.(string); ok {
			args[n] = quoted(s)
		}
	}
	return fmt.Sprintf(format, args...)
}

// quoted writes a text as one word of a shell.
func quoted(s string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("/.-_:,=@%+", c)
	}
	if s != "" && strings.IndexFunc(s, func(c rune) bool { return !plain(c) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// argumentOf names an object as arguments of kanzen why and kubectl get.
func argumentOf(o v1alpha1.ObjectReference) words {
	s := quoted(resource(o.Group, o.Resource) + "/" + o.Name)
	if namespaced(o) {
		s += " -n " + quoted(o.Namespace)
	}
	return words(s)
}

// subjectOf names an object in the names of findings.
func subjectOf(o v1alpha1.ObjectReference) string {
	s := resource(o.Group, o.Resource) + "/" + o.Name
	if namespaced(o) {
		s += "/" + o.Namespace
	}
	return s
}

// namespaced says that an object is in a namespace. A namespace is not in itself, though requests for it have it so.
func namespaced(o v1alpha1.ObjectReference) bool {
	return o.Namespace != "" && (o.Resource != "namespaces" || o.Group != "")
}
