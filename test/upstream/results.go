package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
)

// outcome of a test: pass, fail, skip, or cut (the package ended before the test did).
type outcome string

// results are kept from run to run: package, then server, then test.
type results map[string]*packageResult

type packageResult struct {
	Package string                        `json:"-"`
	Tests   map[string]map[string]outcome `json:"tests"`   // server, then the name of the test, or of the part of one
	Skipped map[string]string             `json:"skipped"` // by skipped.txt: the name of the test, its reason
	Reasons map[string]string             `json:"reasons"` // by the tests or the files laid over: the name of the test, what it said
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
			if _, again := tests[root(name)]; again {
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
}

func root(name string) string {
	name, _, _ = strings.Cut(name, "/")
	return name
}

// count counts whole tests, not their parts.
func (p *packageResult) count(server string, what outcome) int {
	n := 0
	for name, o := range p.Tests[server] {
		if o == what && name == root(name) {
			n++
		}
	}
	return n
}

// differences are tests and parts of tests that pass on kube-apiserver and not on kanzen, and whose parts are not among them.
func (p *packageResult) differences() []string {
	var names []string
	for name, o := range p.Tests["kanzen"] {
		if o != "pass" && p.Tests["kube-apiserver"][name] == "pass" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(names, func(other string) bool { return strings.HasPrefix(other, name+"/") })
	})
}

// print says how the package did, and whether kanzen differs: from kube-apiserver if it was run, from what is asked otherwise.
func (p *packageResult) print() bool {
	for _, server := range []string{"kanzen", "kube-apiserver"} {
		if p.Tests[server] == nil {
			continue
		}
		fmt.Printf("%s on %s: %d pass, %d fail, %d skip, %d cut off\n", p.Package, server, p.count(server, "pass"), p.count(server, "fail"), p.count(server, "skip"), p.count(server, "cut"))
		for _, name := range sorted(p.Tests[server]) {
			if o := p.Tests[server][name]; (o == "fail" || o == "cut") && name == root(name) {
				fmt.Printf("  %s %s\n", o, name)
			}
		}
	}
	if p.Tests["kube-apiserver"] == nil {
		return p.count("kanzen", "fail")+p.count("kanzen", "cut") > 0
	}
	for _, name := range p.differences() {
		fmt.Printf("  differs: %s\n", name)
	}
	for _, name := range sorted(p.Skipped) {
		fmt.Printf("  skipped: %s: %s\n", name, p.Skipped[name])
	}
	return len(p.differences()) > 0
}

// table prints a row for each package that was ever run.
func (r results) table() {
	fmt.Println("\n| package | kanzen: pass / fail / skip | kube-apiserver: pass / fail / skip | differ | left out |")
	fmt.Println("|---|---|---|---|---|")
	for _, name := range sorted(r) {
		p := r[name]
		row := func(server string) string {
			if p.Tests[server] == nil {
				return "–"
			}
			return fmt.Sprintf("%d / %d / %d", p.count(server, "pass"), p.count(server, "fail")+p.count(server, "cut"), p.count(server, "skip"))
		}
		differ := map[string]bool{}
		for _, d := range p.differences() {
			differ[root(d)] = true
		}
		fmt.Printf("| %s | %s | %s | %d | %d |\n", name, row("kanzen"), row("kube-apiserver"), len(differ), len(p.Skipped))
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
