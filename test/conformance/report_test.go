//go:build linux

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kanzen-io/kanzen/test/evidence"
	"github.com/kanzen-io/kanzen/test/machine"
)

const ginkgoReport = `[{"SpecReports": [
	{"LeafNodeType": "BeforeSuite", "State": "passed", "NumAttempts": 1},
	{"ContainerHierarchyTexts": ["[sig-a] Things"], "LeafNodeType": "It", "LeafNodeText": "run [Conformance]", "State": "passed", "NumAttempts": 1, "RunTime": 2500000000},
	{"ContainerHierarchyTexts": ["[sig-a] Things"], "LeafNodeType": "It", "LeafNodeText": "stop", "State": "failed", "NumAttempts": 1, "Failure": {"Message": "one | two\nthree"}},
	{"ContainerHierarchyTexts": ["[sig-a] Things"], "LeafNodeType": "It", "LeafNodeText": "wait", "State": "skipped", "NumAttempts": 1, "Failure": {"Message": "no volumes"}},
	{"ContainerHierarchyTexts": ["[sig-a] Things"], "LeafNodeType": "It", "LeafNodeText": "not asked for", "State": "skipped", "NumAttempts": 0}
]}]`

func TestReport(t *testing.T) {
	outcomes, cut, err := readOutcomes([]byte(ginkgoReport))
	if err != nil || cut != "" {
		t.Fatal(err, cut)
	}
	if want := (outcome{name: "[sig-a] Things run [Conformance]", state: "passed", seconds: 2.5}); len(outcomes) != 3 || outcomes[0] != want {
		t.Fatalf("the outcomes are %+v", outcomes)
	}
	l := layout{machine.Layout{Out: t.TempDir()}}
	s := settings{skips: []evidence.Reason{{Tests: "far away", Reason: "no network"}}}
	err = report(l, s, outcomes, wholeRun{Server: evidence.Server{Version: "v1"}, ProcessorSeconds: 3, MiB: 4})
	if err == nil || !strings.Contains(err.Error(), "table.md") {
		t.Errorf("a spec failed, and the error is %v", err)
	}
	b, err := os.ReadFile(filepath.Join(l.Out, "table.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 specs passed, 1 failed, 1 skipped themselves, 1 were left out", `| [sig-a] Things stop | failed | 0 | one \| two three |`, "| [sig-a] Things wait | skipped | 0 | no volumes |", "| far away | left out | | no network |"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("the table has no %q:\n%s", want, b)
		}
	}
	if strings.Contains(string(b), "not asked for") || strings.Contains(string(b), "Things run") {
		t.Errorf("the table has specs that do not belong there:\n%s", b)
	}
}

// TestNothingRan asks whether a run without specs is an error: a wrong focus must not look like success.
func TestNothingRan(t *testing.T) {
	if err := report(layout{machine.Layout{Out: t.TempDir()}}, settings{}, nil, wholeRun{}); err == nil {
		t.Error("no error")
	}
}

// TestCutOff asks whether a run that was cut off is an error and no evidence, though no spec of it failed.
func TestCutOff(t *testing.T) {
	outcomes, cut, err := readOutcomes([]byte(`[{"SpecialSuiteFailureReasons": ["Suite Timeout Elapsed"], "SpecReports": [{"LeafNodeType": "It", "LeafNodeText": "a", "State": "passed", "NumAttempts": 1}]}]`))
	if err != nil || cut != "Suite Timeout Elapsed" || len(outcomes) != 1 {
		t.Fatal(outcomes, cut, err)
	}
	l, path := layout{machine.Layout{Cache: t.TempDir(), Out: t.TempDir()}}, filepath.Join(t.TempDir(), "conformance.json")
	if err := report(l, settings{evidence: path}, outcomes, wholeRun{cut: cut}); err == nil || err.Error() != cut {
		t.Errorf("the error is %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("it is evidence")
	}
}

func TestReadSkips(t *testing.T) {
	skips, err := readSkips("# why\n\na spec\tits reason\n")
	if err != nil || !slices.Equal(skips, []evidence.Reason{{Tests: "a spec", Reason: "its reason"}}) {
		t.Errorf("%v, %v", skips, err)
	}
	if _, err := readSkips("a spec without one\n"); err == nil {
		t.Error("a line without a reason is taken")
	}
	if _, err := readSkips(skippedSpecs); err != nil {
		t.Error(err)
	}
}

// TestKeep asks whether runs of both servers, one after the other, become one piece of evidence.
func TestKeep(t *testing.T) {
	l := layout{machine.Layout{Cache: t.TempDir()}}
	path := filepath.Join(t.TempDir(), "conformance.json")
	peer := wholeRun{Server: evidence.Server{Version: "v1", Passed: 3, Failed: 1, Failing: []string{"both"}}, MiB: 9}
	if err := keep(l, settings{peer: true, evidence: path}, peer); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("there is evidence without a run of kanzen")
	}
	kanzen := wholeRun{Server: evidence.Server{Version: "v1", Passed: 2, Failed: 2, Failing: []string{"both", "ours"}}, MiB: 5}
	if err := keep(l, settings{evidence: path}, kanzen); err != nil {
		t.Fatal(err)
	}
	r, err := evidence.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	s := r.Suites[0]
	if s.Servers[evidence.Kanzen].Passed != 2 || s.Servers[evidence.Peer].Passed != 3 || !slices.Equal(s.Differences, []evidence.Difference{{Test: "ours", Kanzen: "failed", Peer: "passed"}}) || !strings.Contains(r.Text, "at most 5 MiB") {
		t.Errorf("%+v", r)
	}
}
