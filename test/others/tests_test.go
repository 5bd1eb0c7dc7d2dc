package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kanzen-io/kanzen/test/evidence"
	"github.com/kanzen-io/kanzen/test/suite"
)

func TestGoTests(t *testing.T) {
	found := newTests()
	found.addGo("p", suite.Results{
		Outcomes: map[string]suite.Outcome{
			"TestParts": "pass", "TestParts/one": "pass", "TestParts/two/a": "pass", "TestParts/two": "pass",
			"TestPart": "fail", "TestPart/bad": "fail", "TestPart/good": "pass",
			"TestOwn": "fail", "TestOwn/good": "pass",
			"TestAlone": "skip", "TestCut": "cut",
			"TestSpecs": "pass", "TestSpecsCut": "cut",
		},
		Reasons: map[string]string{"TestAlone": "because"},
		Ginkgo:  map[string]bool{"TestSpecs": true, "TestSpecsCut": true},
	})
	want := map[string]suite.Outcome{
		"p TestParts/one": "pass", "p TestParts/two/a": "pass", "p TestPart/bad": "fail", "p TestPart/good": "pass", "p TestOwn": "fail", "p TestOwn/good": "pass",
		"p TestAlone": "skip", "p TestCut": "cut", "p TestSpecsCut": "cut",
	}
	if !maps.Equal(found.outcomes, want) {
		t.Errorf("%v", found.outcomes)
	}
	s := found.server("v1")
	if s.Passed != 4 || s.Skipped != 1 || strings.Join(s.Failing, ", ") != "p TestCut, p TestOwn, p TestPart/bad, p TestSpecsCut" || s.Failed != len(s.Failing) {
		t.Errorf("%+v", s)
	}
	if got := found.skipped(); !slices.Equal(got, []evidence.Reason{{Tests: "1", Reason: "because"}}) {
		t.Errorf("%v", got)
	}
}

func TestSpecs(t *testing.T) {
	report := filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(report, []byte(`[{"SpecReports": [
		{"LeafNodeType": "BeforeSuite", "State": "passed"},
		{"ContainerHierarchyTexts": ["A"], "LeafNodeType": "It", "LeafNodeText": "works", "State": "passed"},
		{"ContainerHierarchyTexts": ["A"], "LeafNodeType": "It", "LeafNodeText": "works", "State": "panicked"},
		{"ContainerHierarchyTexts": ["A"], "LeafNodeType": "It", "LeafNodeText": "is left out", "State": "skipped"},
		{"ContainerHierarchyTexts": ["A"], "LeafNodeType": "It", "LeafNodeText": "skips itself", "State": "skipped", "Failure": {"Message": "no time"}},
		{"ContainerHierarchyTexts": null, "LeafNodeType": "It", "LeafNodeText": "waits", "State": "pending"},
		{"LeafNodeType": "AfterSuite", "LeafNodeText": "AfterSuite", "State": "failed"}]}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	found := newTests()
	if err := found.addSpecs("p", report); err != nil {
		t.Fatal(err)
	}
	want := map[string]suite.Outcome{"p A works": "pass", "p A works #2": "fail", "p A skips itself": "skip", "p waits": "skip", "p AfterSuite": "fail"}
	if !maps.Equal(found.outcomes, want) {
		t.Errorf("%v", found.outcomes)
	}
	if found.reasons["p A skips itself"] != "no time" {
		t.Errorf("%v", found.reasons)
	}
}

func TestDifferences(t *testing.T) {
	got := differences(map[string]suite.Outcome{"a": "pass", "b": "fail", "c": "fail", "d": "pass"}, map[string]suite.Outcome{"a": "pass", "b": "pass", "c": "fail", "e": "pass"})
	want := []evidence.Difference{{Test: "b", Kanzen: "fail", Peer: "pass"}, {Test: "d", Kanzen: "pass", Peer: "not run"}, {Test: "e", Kanzen: "not run", Peer: "pass"}}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// TestTargets asks of each suite that it names a version, what it runs, and why something is left out.
func TestTargets(t *testing.T) {
	names := map[string]bool{}
	for _, suite := range targets {
		if names[suite.name] || !strings.Contains(suite.module, "@v") || len(suite.packages) == 0 {
			t.Errorf("%+v", suite)
		}
		names[suite.name] = true
		for tests, reason := range suite.leftOut {
			if tests == "" || reason == "" {
				t.Errorf("%s leaves out %q because %q", suite.name, tests, reason)
			}
		}
	}
}
