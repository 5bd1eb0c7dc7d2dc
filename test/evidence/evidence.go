// Package evidence keeps what runs of test suites found out, and makes a page of it. A command that runs suites leaves a file in
// docs/evidence; docs/evidence.md and docs/evidence.json hold what these files say, and nothing else.
package evidence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Run is a file of docs/evidence.
type Run struct {
	Title   string  `json:"title"`
	Command string  `json:"command"` // repeats it
	Text    string  `json:"text"`    // what was run, in Markdown
	Suites  []Suite `json:"suites"`
}

// Suite is what one suite did, and where.
type Suite struct {
	Name        string            `json:"name"`
	Module      string            `json:"module"` // with its version
	Packages    []string          `json:"packages"`
	Of          int               `json:"of"` // packages there are: fewer were run if the run was cut off
	Date        string            `json:"date"`
	Commit      string            `json:"commit"` // of kanzen
	Machine     string            `json:"machine"`
	Servers     map[string]Server `json:"servers"`
	Differences []Difference      `json:"differences,omitempty"`
	Known       map[string]string `json:"known,omitempty"`   // why a test fails on both
	Skipped     []Reason          `json:"skipped,omitempty"` // by the suite, on kanzen
	LeftOut     []Reason          `json:"leftOut,omitempty"` // by who runs it
}

// The names of the servers.
const (
	Kanzen = "kanzen"
	Peer   = "kube-apiserver"
)

// Server is how tests ended on a server.
type Server struct {
	Version string   `json:"version"`
	Passed  int      `json:"passed"`
	Failed  int      `json:"failed"`
	Skipped int      `json:"skipped"`
	Seconds int      `json:"seconds"`
	Failing []string `json:"failing,omitempty"`
}

// Difference is a test that did not end on kanzen as on kube-apiserver.
type Difference struct {
	Test   string `json:"test"`
	Kanzen string `json:"kanzen"`
	Peer   string `json:"kube-apiserver"`
}

// Reason is why tests did not run.
type Reason struct {
	Tests  string `json:"tests"` // how many, or which
	Reason string `json:"reason"`
}

// Now returns a suite with the time, the commit and the machine of this moment.
func Now() (Suite, error) {
	commit, err := currentCommit()
	if err != nil {
		return Suite{}, err
	}
	machine := fmt.Sprintf("%s/%s, %d processors", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	if info, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kB int
		if _, err := fmt.Sscanf(string(info), "MemTotal: %d kB", &kB); err == nil {
			machine += fmt.Sprintf(", %d GiB of memory", (kB+1<<19)>>20)
		}
	}
	return Suite{Date: time.Now().UTC().Format(time.DateOnly), Commit: commit, Machine: machine, Servers: map[string]Server{}}, nil
}

// currentCommit is that of the files here, or "-dirty" if some differ from it. Runs write to docs.
func currentCommit() (string, error) {
	commit, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "", fmt.Errorf("git rev-parse: %w", err)
	}
	changed, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)docs").Output()
	if err != nil {
		return "", fmt.Errorf("git status: %w", err)
	}
	name := strings.TrimSpace(string(commit))
	if len(changed) > 0 {
		name += "-dirty"
	}
	return name, nil
}

// Read reads a file of docs/evidence; one that is not there says nothing.
func Read(path string) (Run, error) {
	var r Run
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// Put puts a suite in the place of the former one of its name. Those that are not among the names, which are in their order, are dropped.
func (r *Run) Put(s Suite, order []string) {
	r.Suites = slices.DeleteFunc(r.Suites, func(old Suite) bool { return old.Name == s.Name || !slices.Contains(order, old.Name) })
	r.Suites = append(r.Suites, s)
	slices.SortFunc(r.Suites, func(a, b Suite) int { return slices.Index(order, a.Name) - slices.Index(order, b.Name) })
}

// Write writes a file of docs/evidence.
func (r *Run) Write(path string) error {
	b, err := marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	err := e.Encode(v)
	return b.Bytes(), err
}

// Pages makes docs/evidence.json and docs/evidence.md of the files in docs/evidence.
func Pages(docs string) (asJSON, asMarkdown []byte, err error) {
	paths, err := filepath.Glob(filepath.Join(docs, "evidence", "*.json"))
	if err != nil {
		return nil, nil, err
	}
	var runs []Run
	for _, path := range paths {
		r, err := Read(path)
		if err != nil {
			return nil, nil, err
		}
		runs = append(runs, r)
	}
	asJSON, err = marshal(runs)
	return asJSON, page(runs), err
}
