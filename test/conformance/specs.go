//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kanzen-io/kanzen/test/evidence"
	"github.com/kanzen-io/kanzen/test/machine"
)

// specs runs the specs that are part of conformance, in parallel those that may, then the serial ones, and writes what they say.
func specs(ctx context.Context, l layout, s settings, p *machine.Plane) error {
	version, err := p.Version()
	if err != nil {
		return err
	}
	if err := writeVersion(l, s, version); err != nil {
		return err
	}
	if err := os.MkdirAll(l.parts(), 0o755); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(l.Out, "e2e.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	began := time.Now()
	result := wholeRun{Server: evidence.Server{Version: version}}
	var outcomes []outcome
	var reports []string
	for _, part := range []part{
		{name: "parallel", labels: "Conformance && !Serial", procs: s.procs},
		{name: "serial", labels: "Conformance && Serial", procs: 1},
	} {
		ran, cut, err := part.run(ctx, l, s, log)
		if err != nil {
			return err
		}
		if cut != "" {
			result.cut = fmt.Sprintf("the %s specs were cut off: %s", part.name, cut)
		}
		outcomes = append(outcomes, ran...)
		reports = append(reports, part.junit(l))
		if ctx.Err() != nil {
			break
		}
	}
	if err := writeJUnit(filepath.Join(l.Out, "junit_01.xml"), reports); err != nil {
		return err
	}
	used := p.Used()
	result.Seconds, result.ProcessorSeconds, result.MiB = int(time.Since(began).Seconds()), int(used.Seconds), used.MiB
	return errors.Join(report(l, s, outcomes, result), ctx.Err())
}

// part is a part of the specs. Several processes run it side by side.
type part struct {
	name, labels string
	procs        int
}

// junit is where the part's report is.
func (p part) junit(l layout) string { return filepath.Join(l.parts(), p.name+".xml") }

// run runs the part and returns how its specs ended, and why it did not come to the last of them.
func (p part) run(ctx context.Context, l layout, s settings, log io.Writer) (outcomes []outcome, cut string, err error) {
	fmt.Printf("the %s specs, %d at a time; %s says how they do\n", p.name, p.procs, filepath.Join(l.Out, "e2e.log"))
	args := []string{"--procs=" + strconv.Itoa(p.procs), "--no-color", "-v", "--timeout=" + s.limit.String(), "--label-filter=" + p.labels,
		"--json-report=" + p.name + ".json", "--junit-report=" + p.name + ".xml", "--output-dir=" + l.parts()}
	if s.focus != "" {
		args = append(args, "--focus="+s.focus)
	}
	for _, skip := range s.skips {
		args = append(args, "--skip="+regexp.QuoteMeta(skip.Tests))
	}
	args = append(args, l.Program("e2e.test"), "--", "--kubeconfig="+l.PKI("admin.kubeconfig"), "--provider=skeleton", "--kubectl-path="+l.Program("kubectl"),
		"--num-nodes="+strconv.Itoa(s.nodes), "--disable-log-dump")
	cmd := exec.CommandContext(ctx, l.Program("ginkgo"), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = l.parts(), log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 20 * time.Second
	failed := cmd.Run() // also if a spec fails
	b, err := os.ReadFile(filepath.Join(l.parts(), p.name+".json"))
	if err != nil {
		return nil, "", fmt.Errorf("the %s specs left no report: %w", p.name, errors.Join(failed, err))
	}
	return readOutcomes(b)
}

// outcome is how a spec ended.
type outcome struct {
	name, state, message string
	seconds              float64
}

// readOutcomes reads a report of ginkgo, and why it was cut off, if it was. Specs that were not asked for are not among the outcomes.
func readOutcomes(report []byte) (outcomes []outcome, cut string, err error) {
	var suites []struct {
		SpecialSuiteFailureReasons []string
		SpecReports                []struct {
			ContainerHierarchyTexts           []string
			LeafNodeType, LeafNodeText, State string
			NumAttempts                       int
			RunTime                           time.Duration
			Failure                           struct{ Message string }
		}
	}
	if err := json.Unmarshal(report, &suites); err != nil {
		return nil, "", fmt.Errorf("report of ginkgo: %w", err)
	}
	for _, suite := range suites {
		if reasons := suite.SpecialSuiteFailureReasons; len(reasons) > 0 {
			cut = strings.Join(reasons, ", ")
		}
		for _, r := range suite.SpecReports {
			if r.LeafNodeType == "It" && r.NumAttempts > 0 {
				outcomes = append(outcomes, outcome{name: specName(r.ContainerHierarchyTexts, r.LeafNodeText), state: r.State, message: r.Failure.Message, seconds: r.RunTime.Seconds()})
			}
		}
	}
	return outcomes, cut, nil
}
