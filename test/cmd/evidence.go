//go:build linux

package main

import (
	"errors"
	"math"
	"os"
	"path/filepath"

	"github.com/kanzen-io/kanzen/test/evidence"
)

// keep writes down what all groups said, the table, and evidence of it and of what they last said on the other server. Evidence is of kanzen.
func (s settings) keep(module string, groups []group, runs map[string]*result) error {
	if err := errors.Join(evidence.KeepRun(s.cache, s.server(), runs[s.server()]), os.WriteFile(filepath.Join(s.cache, "table.md"), []byte(tableOf(groups, runs)), 0o644)); err != nil {
		return err
	}
	if s.evidence == "" || runs[evidence.Kanzen] == nil {
		return nil
	}
	now, err := evidence.Now()
	if err != nil {
		return err
	}
	kept := evidence.Run{
		Title: "kubectl's command-line tests", Command: "make test-cmd && make test-cmd PEER=1",
		Text: "runs `make test-cmd` of Kubernetes, unchanged ([test-cmd.md](test-cmd.md)): kubectl against a server that the scripts start with flags of their own,\nwith etcd and kube-controller-manager. A test is one of the functions that the scripts judge apart.",
	}
	kept.Suites = suitesOf(now, module, groups, runs)
	return kept.Write(s.evidence)
}

// suitesOf makes a suite of each script, in the order in which their groups first run.
func suitesOf(now evidence.Suite, module string, groups []group, runs map[string]*result) (suites []evidence.Suite) {
	var files []string
	of := map[string][]group{}
	for _, g := range groups {
		if of[g.file] == nil {
			files = append(files, g.file)
		}
		of[g.file] = append(of[g.file], g)
	}
	for _, file := range files {
		s := now
		s.Name, s.Module, s.Packages, s.Of, s.Servers = file, module, []string{"test/cmd/" + file}, 1, map[string]evidence.Server{}
		for server, run := range runs {
			s.Servers[server] = run.server(of[file])
		}
		for _, g := range of[file] {
			if runs[evidence.Peer] == nil {
				break
			}
			if on, peer := runs[evidence.Kanzen].of(g.name).State, runs[evidence.Peer].of(g.name).State; on != peer {
				s.Differences = append(s.Differences, evidence.Difference{Test: g.name, Kanzen: string(on), Peer: string(peer)})
			}
		}
		suites = append(suites, s)
	}
	return suites
}

// server counts groups.
func (r *result) server(groups []group) evidence.Server {
	s := evidence.Server{Version: r.Version}
	seconds := 0.0
	for _, g := range groups {
		o := r.of(g.name)
		seconds += o.Took.Seconds()
		if o.State == passed {
			s.Passed++
			continue
		}
		s.Failed++
		s.Failing = append(s.Failing, g.name)
	}
	s.Seconds = int(math.Round(seconds))
	return s
}
