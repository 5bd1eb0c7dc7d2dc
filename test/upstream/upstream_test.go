package main

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kanzen-io/kanzen/test/evidence"
	"github.com/kanzen-io/kanzen/test/suite"
)

func TestDifferences(t *testing.T) {
	p := packageResult{Tests: map[string]map[string]suite.Outcome{
		"kanzen":         {"TestA": "fail", "TestA/one": "fail", "TestA/two": "pass", "TestB": "cut", "TestC": "fail", "TestD": "pass"},
		"kube-apiserver": {"TestA": "pass", "TestA/one": "pass", "TestA/two": "pass", "TestB": "pass", "TestC": "fail", "TestD": "fail"},
	}}
	if got := strings.Join(p.differences(), " "); got != "TestA/one TestB" {
		t.Errorf("%s", got)
	}
}

// TestSkipped reads the list of what is left out, and one of its form.
func TestSkipped(t *testing.T) {
	skips, err := readSkips("skipped.txt")
	if err != nil {
		t.Fatal(err)
	}
	if len(skips) == 0 {
		t.Fatal("nothing is left out")
	}
	path := filepath.Join(t.TempDir(), "skipped.txt")
	if err := os.WriteFile(path, []byte("# remark\n\na TestX why it is\na TestXY because\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if skips, err = readSkips(path); err != nil {
		t.Fatal(err)
	}
	if got := skips["a"]; !maps.Equal(got, map[string]string{"TestX": "why it is", "TestXY": "because"}) {
		t.Errorf("%v", got)
	}
}

// TestEvidence counts whole tests, and names kube-apiserver only where it was asked.
func TestEvidence(t *testing.T) {
	p := packageResult{Package: "apiserver", Seconds: 7, Skipped: map[string]string{"TestD": "why"}, Reasons: map[string]string{"TestC": "because", "TestC/one": "because"},
		Tests: map[string]map[string]suite.Outcome{
			"kanzen":         {"TestA": "pass", "TestA/one": "pass", "TestB": "cut", "TestC": "skip"},
			"kube-apiserver": {"TestB": "pass"},
		}}
	path := filepath.Join(t.TempDir(), "upstream.json")
	for range 2 { // the second replaces the first
		if err := p.keep(path, "kubernetes v1", map[string]string{"kanzen": "1+kanzen", "kube-apiserver": "1"}); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := evidence.Read(path)
	if err != nil || len(kept.Suites) != 1 {
		t.Fatalf("%+v, %v", kept, err)
	}
	got := kept.Suites[0]
	want := map[string]evidence.Server{
		"kanzen":         {Version: "1+kanzen", Passed: 1, Failed: 1, Skipped: 1, Seconds: 7, Failing: []string{"TestB"}},
		"kube-apiserver": {Version: "1", Passed: 1},
	}
	if !reflect.DeepEqual(got.Servers, want) {
		t.Errorf("%+v", got.Servers)
	}
	if want := []evidence.Difference{{Test: "TestB", Kanzen: "cut", Peer: "pass"}}; !slices.Equal(got.Differences, want) {
		t.Errorf("%+v", got.Differences)
	}
	if !slices.Equal(got.LeftOut, []evidence.Reason{{Tests: "TestD", Reason: "why"}}) || !slices.Equal(got.Skipped, []evidence.Reason{{Tests: "TestC", Reason: "because"}}) {
		t.Errorf("%+v, %+v", got.LeftOut, got.Skipped)
	}
}
