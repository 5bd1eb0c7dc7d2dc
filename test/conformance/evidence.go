//go:build linux

package main

import (
	"fmt"
	"slices"

	"github.com/kanzen-io/kanzen/test/evidence"
)

// wholeRun is what a run says about a server; one of all specs is kept. The next run of the other server finds it.
type wholeRun struct {
	evidence.Server
	ProcessorSeconds int
	MiB              int
	Commit           string
	cut              string // why it is no whole run
}

// keep writes down a whole run, and makes evidence of it and of the last one of the other server.
func keep(l layout, s settings, ran wholeRun) error {
	suite, err := evidence.Now()
	if err != nil {
		return err
	}
	ran.Commit = suite.Commit
	if err := evidence.KeepRun(l.Cache, s.server(), ran); err != nil {
		return err
	}
	runs, err := evidence.LastRuns[wholeRun](l.Cache)
	if err != nil {
		return err
	}
	if _, ran := runs[evidence.Kanzen]; !ran {
		return nil // it is evidence of kanzen
	}
	kept := evidenceOf(suite, runs, s)
	return kept.Write(s.evidence)
}

// evidenceOf makes the file of evidence of runs.
func evidenceOf(suite evidence.Suite, runs map[string]wholeRun, s settings) evidence.Run {
	suite.Name, suite.Module, suite.Packages, suite.Of = "conformance", "k8s.io/kubernetes "+runs[evidence.Kanzen].Version, []string{"test/e2e"}, 1
	suite.LeftOut, suite.Commit = s.skips, runs[evidence.Kanzen].Commit
	text := fmt.Sprintf("runs the conformance specs of Kubernetes on %d nodes of one machine ([conformance.md](conformance.md)): kubelet, containerd, runc, kube-proxy and CoreDNS,\nwith kanzen or kube-apiserver as their server.", s.nodes)
	for _, server := range []string{evidence.Kanzen, evidence.Peer} {
		if r, ran := runs[server]; ran {
			suite.Servers[server] = r.Server
			text += fmt.Sprintf(" %s took %d s of processor time and at most %d MiB of memory.", server, r.ProcessorSeconds, r.MiB)
		}
	}
	if peer, ran := runs[evidence.Peer]; ran {
		suite.Differences = differences(runs[evidence.Kanzen].Failing, peer.Failing)
	}
	return evidence.Run{Title: "Kubernetes' conformance", Command: "make conformance && make conformance PEER=1", Text: text, Suites: []evidence.Suite{suite}}
}

// differences are the specs that failed on one server alone.
func differences(kanzen, peer []string) (d []evidence.Difference) {
	for _, name := range kanzen {
		if !slices.Contains(peer, name) {
			d = append(d, evidence.Difference{Test: name, Kanzen: "failed", Peer: "passed"})
		}
	}
	for _, name := range peer {
		if !slices.Contains(kanzen, name) {
			d = append(d, evidence.Difference{Test: name, Kanzen: "passed", Peer: "failed"})
		}
	}
	return d
}
