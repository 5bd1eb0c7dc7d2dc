package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestFollow(t *testing.T) {
	outcomes, reasons := map[string]outcome{}, map[string]string{}
	whole := follow(strings.NewReader(`=== RUN   TestA
=== RUN   TestA/one
    a_test.go:3: text
--- PASS: TestA (0.10s)
    --- FAIL: TestA/one (0.00s)
=== RUN   TestB
    b_test.go:7: because
--- SKIP: TestB (0.00s)
=== RUN   TestC
panic: test timed out`), outcomes, reasons)
	if whole {
		t.Error("a panic is no end")
	}
	if want := (map[string]outcome{"TestA": "pass", "TestA/one": "fail", "TestB": "skip", "TestC": "cut"}); !maps.Equal(outcomes, want) {
		t.Errorf("outcomes %v, want %v", outcomes, want)
	}
	if want := (map[string]string{"TestB": "because"}); !maps.Equal(reasons, want) {
		t.Errorf("reasons %v, want %v", reasons, want)
	}
}

func TestDifferences(t *testing.T) {
	p := packageResult{Tests: map[string]map[string]outcome{
		"kanzen":         {"TestA": "fail", "TestA/one": "fail", "TestA/two": "pass", "TestB": "cut", "TestC": "fail", "TestD": "pass"},
		"kube-apiserver": {"TestA": "pass", "TestA/one": "pass", "TestA/two": "pass", "TestB": "pass", "TestC": "fail", "TestD": "fail"},
	}}
	if got := strings.Join(p.differences(), " "); got != "TestA/one TestB" {
		t.Errorf("%s", got)
	}
}

// TestSkipped reads the list of what is left out, and holds its pattern against names.
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
	pattern := regexp.MustCompile(skipPattern(skips["a"], map[string]outcome{"TestZ": "cut", "TestZ/part": "pass"}))
	for name, want := range map[string]bool{"TestX": true, "TestXY": true, "TestXYZ": false, "ATestX": false, "TestZ": true, "part": false} {
		if pattern.MatchString(name) != want {
			t.Errorf("%s: %t", name, !want)
		}
	}
}
