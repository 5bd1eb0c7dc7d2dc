//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kanzen-io/kanzen/test/evidence"
)

// ran is what a run says about a server. The next run of the other server finds it.
type ran struct {
	evidence.Server
	Commit string
	Counts []figures
}

// figures are those of a count.
type figures struct {
	What                  string
	ReadsAway, WritesAway float64 // seconds
	Reads, Acknowledged   int
	Failed                int
	Reopened, Relisted    int
	Served                int
}

func figuresOf(counts []count) (list []figures) {
	for _, c := range counts {
		list = append(list, figures{What: c.what, ReadsAway: c.reads.away.Seconds(), WritesAway: c.writes.away.Seconds(), Reads: c.reads.good, Acknowledged: c.acknowledged,
			Failed: c.reads.failed + c.writes.failed, Reopened: max(0, c.opened-1), Relisted: c.relisted, Served: c.served})
	}
	return list
}

// table shows figures in Markdown.
func table(list []figures) string {
	var b strings.Builder
	b.WriteString("| what was done | no read for | no write for | reads answered | writes confirmed, none lost | failed requests | watch opened again | of these with a new list | requests of the workload, none failed |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, f := range list {
		fmt.Fprintf(&b, "| %s | %.1f s | %.1f s | %d | %d | %d | %d | %d | %d |\n", f.What, f.ReadsAway, f.WritesAway, f.Reads, f.Acknowledged, f.Failed, f.Reopened, f.Relisted, f.Served)
	}
	return b.String()
}

// report writes down how the steps ended, and makes evidence of a run to the end. It is an error if a step failed.
func report(s settings, c *cluster, outcomes []outcome) error {
	var r ran
	var reason error
	total := 0.0
	for _, o := range outcomes {
		total += o.seconds
		if o.err != nil || o.skipped {
			r.Failed++
			r.Failing = append(r.Failing, o.name)
			reason = errors.Join(reason, o.err)
			continue
		}
		r.Passed++
	}
	r.Seconds, r.Counts = int(total), figuresOf(c.counts)
	path := filepath.Join(s.Out, "table.md")
	if err := os.WriteFile(path, []byte(table(r.Counts)), 0o644); err != nil {
		return err
	}
	fmt.Printf("%d steps passed, %d did not, in %d s; %s has the figures, %s all that was typed\n", r.Passed, r.Failed, r.Seconds, path, filepath.Join(s.Out, "commands.log"))
	if reason != nil {
		return reason
	}
	if s.evidence == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var err error
	if r.Version, err = serverVersion(ctx, c.directly(first)); err != nil {
		return err
	}
	return keep(s, r)
}

// keep writes down a run, and makes evidence of it and of the last one of the other server.
func keep(s settings, r ran) error {
	suite, err := evidence.Now()
	if err != nil {
		return err
	}
	r.Commit = suite.Commit
	if err := evidence.KeepRun(s.Cache, s.server(), r); err != nil {
		return err
	}
	runs, err := evidence.LastRuns[ran](s.Cache)
	if err != nil {
		return err
	}
	kanzen, has := runs[evidence.Kanzen]
	if !has {
		return nil // it is evidence of kanzen
	}
	suite.Name, suite.Module, suite.Packages, suite.Of, suite.Commit = "kubeadm", "k8s.io/kubernetes "+version, []string{"cmd/kubeadm"}, 1, kanzen.Commit
	text := "does to a cluster what people do with kubeadm ([kubeadm.md](kubeadm.md)): `init`, `join`, `certs renew`, `token`, `upgrade`, `reset`, and three control planes with\n" +
		"stacked etcd of which one is killed. A step counts as a test. Clients count what the API does meanwhile:\n"
	for _, server := range []string{evidence.Kanzen, evidence.Peer} {
		if r, has := runs[server]; has {
			suite.Servers[server] = r.Server
			text += "\nThe cluster began with " + server + ":\n\n" + table(r.Counts)
		}
	}
	kept := evidence.Run{Title: "kubeadm", Command: "make kubeadm && make kubeadm PEER=1", Text: strings.TrimSpace(text), Suites: []evidence.Suite{suite}}
	return kept.Write(s.evidence)
}
