package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/kanzen-io/kanzen/test/suite"
)

// results are kept from run to run: package, then server, then test.
type results map[string]*packageResult

type packageResult struct {
	Package string                              `json:"-"`
	Seconds int                                 `json:"seconds"` // on kanzen
	Tests   map[string]map[string]suite.Outcome `json:"tests"`   // server, then the name of the test, or of the part of one
	Skipped map[string]string                   `json:"skipped"` // by skipped.txt: the name of the test, its reason
	Reasons map[string]string                   `json:"reasons"` // by the tests or the files laid over: the name of the test, what it said
}

func readResults(path string) (results, error) {
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return results{}, nil
	}
	if err != nil {
		return nil, err
	}
	r := results{}
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, err
	}
	for name, p := range r {
		p.Package = name
	}
	return r, nil
}

func (r results) write(path string) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}

// add puts results in the place of the former ones of the same tests; those of a whole package replace all of it.
func (r results) add(p *packageResult, some bool) {
	old := r[p.Package]
	if old == nil {
		r[p.Package] = p
		return
	}
	for server, tests := range p.Tests {
		if !some || old.Tests[server] == nil {
			old.Tests[server] = tests
			continue
		}
		for name := range old.Tests[server] {
			if _, again := tests[suite.Root(name)]; again {
				delete(old.Tests[server], name)
			}
		}
		for name, o := range tests {
			old.Tests[server][name] = o
		}
	}
	old.Skipped = p.Skipped
	for name, reason := range p.Reasons {
		old.Reasons[name] = reason
	}
	if !some {
		old.Seconds = p.Seconds
	}
}

// count counts whole tests, not their parts.
func (p *packageResult) count(server string, what suite.Outcome) int {
	n := 0
	for name, o := range p.Tests[server] {
		if o == what && name == suite.Root(name) {
			n++
		}
	}
	return n
}

// failed are the whole tests that do not pass on kanzen.
func (p *packageResult) failed() []string { return p.failing(kanzen) }

// failing are the whole tests that do not pass on a server.
func (p *packageResult) failing(server string) []string {
	var names []string
	for _, name := range sorted(p.Tests[server]) {
		if o := p.Tests[server][name]; (o == "fail" || o == "cut") && name == suite.Root(name) {
			names = append(names, name)
		}
	}
	return names
}

// differences are tests and parts of tests that pass on kube-apiserver and not on kanzen, and whose parts are not among them.
func (p *packageResult) differences() []string {
	var names []string
	for _, name := range sorted(p.Tests[kanzen]) {
		if p.Tests[kanzen][name] != "pass" && p.Tests[peer][name] == "pass" {
			names = append(names, name)
		}
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(names, func(other string) bool { return strings.HasPrefix(other, name+"/") })
	})
}

// print says how the package did, and whether kanzen differs: from kube-apiserver where that was asked, else from what the test wants.
func (p *packageResult) print() bool {
	fmt.Printf("%s: %d pass, %d fail, %d skip, %d cut off (%d s)\n", p.Package, p.count(kanzen, "pass"), p.count(kanzen, "fail"), p.count(kanzen, "skip"), p.count(kanzen, "cut"), p.Seconds)
	for _, name := range p.failed() {
		note := ""
		if o, asked := p.Tests[peer][name]; asked {
			note = ", kube-apiserver: " + string(o)
		}
		fmt.Printf("  %s: %s%s\n", name, p.Tests[kanzen][name], note)
	}
	for _, name := range p.differences() {
		fmt.Printf("  differs: %s\n", name)
	}
	if p.Tests[peer] == nil {
		return len(p.failed()) > 0
	}
	return len(p.differences()) > 0
}

// table prints a row for each package that was ever run.
func (r results) table() {
	fmt.Println("\n| package | pass | fail | of these pass on kube-apiserver | skip | left out | seconds |")
	fmt.Println("|---|---|---|---|---|---|---|")
	for _, name := range sorted(r) {
		p := r[name]
		differ := "–"
		if failed := p.failed(); len(failed) == 0 || p.Tests[peer] != nil {
			roots := map[string]bool{}
			for _, d := range p.differences() {
				roots[suite.Root(d)] = true
			}
			differ = strconv.Itoa(len(roots))
		}
		fmt.Printf("| %s | %d | %d | %s | %d | %d | %d |\n", name, p.count(kanzen, "pass"), len(p.failed()), differ, p.count(kanzen, "skip"), len(p.Skipped), p.Seconds)
	}
}

func sorted[T any](m map[string]T) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
