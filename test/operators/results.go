//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kanzen-io/kanzen/test/evidence"
	"github.com/kanzen-io/kanzen/test/machine"
)

// result is what became of an operator's steps on a server.
type result struct {
	Version          string // of the server
	Module           string // of the operator
	Commit, Date     string
	Steps            []outcome
	ProcessorSeconds float64 // of the server, etcd included
	MiB              int
}

// outcome is what became of a step.
type outcome struct {
	Name    string
	Passed  bool
	Why     string `json:",omitempty"` // it failed
	Seconds float64
}

// useAll installs the operator and takes all steps. A step that fails does not keep the others from being taken, but for the installation.
func (w *world) useAll(ctx context.Context, limit time.Duration) (*result, error) {
	r := &result{Version: w.version, Module: w.operator.modules[0].path}
	steps := slices.Concat([]step{{"is installed", w.operator.install}}, w.operator.steps)
	for i, s := range steps {
		if i > 0 && !r.Steps[0].Passed {
			r.Steps = append(r.Steps, outcome{Name: s.name, Why: "the operator is not installed"})
			continue
		}
		began := time.Now()
		own, cancel := context.WithTimeout(ctx, limit)
		err := s.run(own, w)
		cancel()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		o := outcome{Name: s.name, Passed: err == nil, Seconds: time.Since(began).Seconds()}
		if err != nil {
			o.Why = err.Error()
		}
		fmt.Println(o)
		r.Steps = append(r.Steps, o)
	}
	used := w.plane.Used()
	r.ProcessorSeconds, r.MiB = used.Seconds, used.MiB
	return r, nil
}

func (o outcome) String() string {
	if o.Passed {
		return fmt.Sprintf("  passed %5.1f s  %s", o.Seconds, o.Name)
	}
	return fmt.Sprintf("  FAILED %5.1f s  %s: %s", o.Seconds, o.Name, o.Why)
}

// seconds is how long all steps took.
func (r *result) seconds() (sum float64) {
	for _, o := range r.Steps {
		sum += o.Seconds
	}
	return sum
}

func (r *result) failing() (names []string) {
	for _, o := range r.Steps {
		if !o.Passed {
			names = append(names, o.Name)
		}
	}
	return names
}

func resultFile(l machine.Layout) string { return filepath.Join(l.Out, "result.json") }

func (r *result) write(l machine.Layout) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(resultFile(l), b, 0o644)
}

func readResult(l machine.Layout) (*result, error) {
	b, err := os.ReadFile(resultFile(l))
	if err != nil {
		return nil, err
	}
	r := &result{}
	return r, json.Unmarshal(b, r)
}

// results are those of a server, by the names of the operators.
type results map[string]*result

// keep writes down what an operator did on the server, and makes evidence of it and of what it last did on the other server. It tells whether
// a step fails that does not fail on kube-apiserver.
func keep(l machine.Layout, s settings, o *operator, r *result) (differs bool, err error) {
	now, err := evidence.Now()
	if err != nil {
		return false, err
	}
	r.Commit, r.Date = now.Commit, now.Date
	runs, err := evidence.LastRuns[results](l.Cache)
	if err != nil {
		return false, err
	}
	if runs[s.server()] == nil {
		runs[s.server()] = results{}
	}
	runs[s.server()][o.name] = r
	if err := evidence.KeepRun(l.Cache, s.server(), runs[s.server()]); err != nil {
		return false, err
	}
	fmt.Printf("%s on %s: %d of %d steps passed in %.0f s; the server took %.1f s of processor time and %d MiB of memory\n",
		o.name, s.server(), len(r.Steps)-len(r.failing()), len(r.Steps), r.seconds(), r.ProcessorSeconds, r.MiB)
	if s.evidence != "" && runs[evidence.Kanzen][o.name] != nil {
		kept, err := evidence.Read(s.evidence)
		if err != nil {
			return false, err
		}
		if err := addTo(&kept, now, o, runs); err != nil {
			return false, err
		}
		if err := kept.Write(s.evidence); err != nil {
			return false, err
		}
	}
	return differ(r, runs[evidence.Peer][o.name], s.peer), nil
}

// differ tells whether a step fails that is not known to fail on kube-apiserver.
func differ(r, peer *result, isPeer bool) bool {
	for _, name := range r.failing() {
		if isPeer || peer == nil || !slices.Contains(peer.failing(), name) {
			return true
		}
	}
	return false
}

// addTo puts what an operator did into a file of evidence, beside the others.
func addTo(kept *evidence.Run, now evidence.Suite, o *operator, runs map[string]results) error {
	var order []string
	for _, o := range operators {
		order = append(order, o.name)
	}
	kept.Put(suiteOf(now, o, runs), order)
	kept.Title, kept.Command = "Operators", "make operators && make operators PEER=1"
	kept.Text = "installs operators of other projects, unchanged, by their own manifests and uses them as their users do ([operators.md](operators.md)). A test is a step of\n" +
		"such use; a package is a program of the operator.\n" + usageOf(order, runs)
	return nil
}

func suiteOf(now evidence.Suite, o *operator, runs map[string]results) evidence.Suite {
	s := now
	on := runs[evidence.Kanzen][o.name]
	s.Name, s.Module, s.Commit, s.Date = o.name, strings.Replace(on.Module, "@", " ", 1), on.Commit, on.Date
	s.Packages = slices.Sorted(maps.Values(o.programs))
	s.Of, s.Servers = len(s.Packages), map[string]evidence.Server{}
	for name, all := range runs {
		r := all[o.name]
		if r == nil || r.Module != on.Module {
			continue
		}
		failing := r.failing()
		s.Servers[name] = evidence.Server{Version: r.Version, Passed: len(r.Steps) - len(failing), Failed: len(failing), Seconds: int(math.Round(r.seconds())), Failing: failing}
	}
	if peer, ran := s.Servers[evidence.Peer]; ran {
		for _, step := range on.Steps {
			if failed := slices.Contains(peer.Failing, step.Name); failed == step.Passed {
				words := map[bool]string{true: "passed", false: "failed"}
				s.Differences = append(s.Differences, evidence.Difference{Test: step.Name, Kanzen: words[step.Passed], Peer: words[!failed]})
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(o.leftOut)) {
		s.LeftOut = append(s.LeftOut, evidence.Reason{Tests: what, Reason: o.leftOut[what]})
	}
	return s
}

// usageOf is a table of what the servers took.
func usageOf(order []string, runs map[string]results) string {
	var b strings.Builder
	b.WriteString("\n| operator | kanzen: processor time | memory, at most | kube-apiserver and etcd: processor time | memory, at most |\n|---|---|---|---|---|\n")
	for _, name := range order {
		if runs[evidence.Kanzen][name] == nil {
			continue
		}
		fmt.Fprintf(&b, "| %s |", name)
		for _, server := range []string{evidence.Kanzen, evidence.Peer} {
			if r := runs[server][name]; r != nil {
				fmt.Fprintf(&b, " %.1f s | %d MiB |", r.ProcessorSeconds, r.MiB)
			} else {
				b.WriteString(" – | – |")
			}
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}
