package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
