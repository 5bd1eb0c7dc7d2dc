package evidence

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

const intro = `# Evidence

This page shows how kanzen does in test suites that other projects wrote, beside kube-apiserver, and in a long run of its own while things break.
` + "`make evidence`" + ` writes it from the files in [evidence/](evidence), which the commands below leave behind. A test fails if the page does not
say what these files say.
[evidence.json](evidence.json) is the same for programs.

"Left out" are tests that were not asked for; the others that were skipped skip themselves. Times are those of the tests with their
servers, without compilation; the machines did other work at the same time.
`

// page writes Markdown. It states figures of runs only.
func page(runs []Run) []byte {
	var b bytes.Buffer
	b.WriteString(intro)
	for _, r := range runs {
		fmt.Fprintf(&b, "\n## %s\n\n    %s\n\n%s\n", r.Title, r.Command, r.Text)
		counts(&b, r.Suites)
		places(&b, r.Suites)
		differences(&b, r.Suites)
		failures(&b, r.Suites)
		reasons(&b, "left out", r.Suites, func(s Suite) []Reason { return s.LeftOut })
		reasons(&b, "tests that skip themselves", r.Suites, func(s Suite) []Reason { return s.Skipped })
	}
	return b.Bytes()
}

func counts(b *bytes.Buffer, suites []Suite) {
	b.WriteString("\n| suite | module | packages | kanzen: passed | failed | skipped | seconds | kube-apiserver: passed | failed | skipped | seconds |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, s := range suites {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", s.Name, s.Module, packages(s), columns(s, Kanzen), columns(s, Peer))
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

// places says when and where suites were run, once for those that share all of it.
func places(b *bytes.Buffer, suites []Suite) {
	var order []string
	names := map[string][]string{}
	for _, s := range suites {
		place := fmt.Sprintf("%s, kanzen of commit %s (%s)", s.Date, s.Commit, s.Servers[Kanzen].Version)
		if of, asked := s.Servers[Peer]; asked {
			place += ", kube-apiserver " + of.Version
		}
		place += "; " + s.Machine
		if names[place] == nil {
			order = append(order, place)
		}
		names[place] = append(names[place], s.Name)
	}
	b.WriteString("\n")
	for _, place := range order {
		fmt.Fprintf(b, "- %s: %s\n", place, strings.Join(names[place], ", "))
	}
}

func differences(b *bytes.Buffer, suites []Suite) {
	var rows []string
	for _, s := range suites {
		for _, d := range s.Differences {
			rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s |\n", s.Name, cell(d.Test), d.Kanzen, d.Peer))
		}
	}
	if len(rows) == 0 {
		b.WriteString("\nNo test that was run on both servers ended differently.\n")
		return
	}
	fmt.Fprintf(b, "\nThese tests did not end the same on both servers:\n\n| suite | test | kanzen | kube-apiserver |\n|---|---|---|---|\n%s", strings.Join(rows, ""))
}

func failures(b *bytes.Buffer, suites []Suite) {
	var rows []string
	for _, s := range suites {
		for _, name := range s.failOnBoth() {
			rows = append(rows, fmt.Sprintf("| %s | %s | %s |\n", s.Name, cell(name), cell(s.Known[name])))
		}
	}
	if len(rows) > 0 {
		fmt.Fprintf(b, "\nThese tests fail on both servers:\n\n| suite | test | reason, where it is known |\n|---|---|---|\n%s", strings.Join(rows, ""))
	}
}

func reasons(b *bytes.Buffer, title string, suites []Suite, of func(Suite) []Reason) {
	var rows []string
	for _, s := range suites {
		for _, r := range of(s) {
			rows = append(rows, fmt.Sprintf("| %s | %s | %s |\n", s.Name, cell(r.Tests), cell(r.Reason)))
		}
	}
	if len(rows) > 0 {
		fmt.Fprintf(b, "\n| suite | %s | reason |\n|---|---|---|\n%s", title, strings.Join(rows, ""))
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

// cell is text that neither ends a cell of a table nor is read as Markdown.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", "`", "'").Replace(text)
}
