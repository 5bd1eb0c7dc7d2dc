package main

import (
	"maps"
	"slices"

	"github.com/kanzen-io/kanzen/test/evidence"
	"github.com/kanzen-io/kanzen/test/suite"
)

// keep adds a package to the file of evidence. Only whole packages are evidence, of which something ran.
func (p *packageResult) keep(path, module string, versions map[string]string) error {
	if p.count(kanzen, "pass")+len(p.failing(kanzen)) == 0 {
		return nil
	}
	kept, err := evidence.Read(path)
	if err != nil {
		return err
	}
	result, err := p.evidence(module, versions)
	if err != nil {
		return err
	}
	kept.Title, kept.Command = "Kubernetes' own integration tests", "make upstream-integration PEER=1"
	kept.Text = "runs test/integration of Kubernetes, unchanged ([upstream-integration.md](upstream-integration.md)). Whole tests are counted. Those that do not\npass on kanzen were run on kube-apiserver, the others were not."
	order := []string{result.Name}
	for _, s := range kept.Suites {
		order = append(order, s.Name)
	}
	slices.Sort(order)
	kept.Put(result, order)
	return kept.Write(path)
}

func (p *packageResult) evidence(module string, versions map[string]string) (evidence.Suite, error) {
	s, err := evidence.Now()
	if err != nil {
		return s, err
	}
	s.Name, s.Module, s.Packages, s.Of = p.Package, module, []string{p.Package}, 1
	for name, outcomes := range p.Tests {
		of := evidence.Server{Version: versions[name], Passed: p.count(name, "pass"), Skipped: p.count(name, "skip"), Failing: p.failing(name)}
		of.Failed = len(of.Failing)
		if name == kanzen {
			of.Seconds = p.Seconds
		}
		if len(outcomes) > 0 {
			s.Servers[name] = of
		}
	}
	for _, name := range p.differences() {
		s.Differences = append(s.Differences, evidence.Difference{Test: name, Kanzen: string(p.Tests[kanzen][name]), Peer: string(p.Tests[peer][name])})
	}
	for _, name := range slices.Sorted(maps.Keys(p.Skipped)) {
		s.LeftOut = append(s.LeftOut, evidence.Reason{Tests: name, Reason: p.Skipped[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(p.Reasons)) {
		if name == suite.Root(name) {
			s.Skipped = append(s.Skipped, evidence.Reason{Tests: name, Reason: p.Reasons[name]})
		}
	}
	return s, nil
}
