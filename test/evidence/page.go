package evidence

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

const intro = `# Evidence

This page shows how kanzen does in test suites that other projects wrote, beside kube-apiserver. ` + "`make evidence`" + ` writes it from the
files in [evidence/](evidence), which the commands below leave behind. A test fails if the page does not say what these files say.
[evidence.json](evidence.json) is the same for programs.

"Left out" are tests that were not asked for; the others that were skipped skip themselves. Times are those of the tests with their
servers, without compilation; the machines did other work at the same time.
`

// page writes Markdown. It states figures of runs only.
func page(runs []Run) []byte {
	var b bytes.Buffer
	b.WriteString(intro)
	for _, r := range runs {
		fmt.Fprintf(&b, "\n## %s\n\n    %s\n\n%s\n\n", r.Title, r.Command, r.Text)
		table(&b, r.Suites)
		for _, s := range r.Suites {
			details(&b, s)
		}
	}
	return b.Bytes()
}

func table(b *bytes.Buffer, suites []Suite) {
	b.WriteString("| suite | packages | kanzen: passed | failed | skipped | seconds | kube-apiserver: passed | failed | skipped | seconds |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|\n")
	for _, s := range suites {
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", s.Name, packages(s), columns(s, Kanzen), columns(s, Peer))
	}
}

func packages(s Suite) string {
	if len(s.Packages) == s.Of {
		return strconv.Itoa(s.Of)
	}
	return fmt.Sprintf("%d of %d", len(s.Packages), s.Of)
}

func columns(s Suite, server string) string {
	of, asked := s.Servers[server]
	if !asked {
		return "– | – | – | –"
	}
	var out []string
	for _, n := range []int{of.Passed, of.Failed, of.Skipped, of.Seconds} {
		out = append(out, strconv.Itoa(n))
	}
	return strings.Join(out, " | ")
}

func details(b *bytes.Buffer, s Suite) {
	fmt.Fprintf(b, "\n### %s\n\n%s, on %s: kanzen %s (%s) and kube-apiserver %s; %s.\n",
		s.Name, s.Module, s.Date, s.Servers[Kanzen].Version, s.Commit, s.Servers[Peer].Version, s.Machine)
	if len(s.Differences) == 0 {
		b.WriteString("All tests ended the same on both servers.\n")
	} else {
		b.WriteString("These tests did not end the same on both servers:\n\n| test | kanzen | kube-apiserver |\n|---|---|---|\n")
		for _, d := range s.Differences {
			fmt.Fprintf(b, "| %s | %s | %s |\n", cell(d.Test), d.Kanzen, d.Peer)
		}
	}
	if failing := s.failOnBoth(); len(failing) > 0 {
		b.WriteString("\nThese tests fail on both servers:\n\n")
		for _, name := range failing {
			fmt.Fprintf(b, "- %s\n", cell(name))
		}
	}
	reasons(b, "left out", s.LeftOut)
	reasons(b, "skip themselves", s.Skipped)
}

func reasons(b *bytes.Buffer, title string, reasons []Reason) {
	if len(reasons) == 0 {
		return
	}
	fmt.Fprintf(b, "\n| %s | reason |\n|---|---|\n", title)
	for _, r := range reasons {
		fmt.Fprintf(b, "| %s | %s |\n", cell(r.Tests), cell(r.Reason))
	}
}

// failOnBoth are the tests that fail on kanzen as they do on kube-apiserver.
func (s *Suite) failOnBoth() (names []string) {
	peer := map[string]bool{}
	for _, name := range s.Servers[Peer].Failing {
		peer[name] = true
	}
	for _, name := range s.Servers[Kanzen].Failing {
		if peer[name] {
			names = append(names, name)
		}
	}
	return names
}

// cell is text that does not end a cell of a table, and is not read as Markdown or a page's command.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", "`", "'").Replace(text)
}
