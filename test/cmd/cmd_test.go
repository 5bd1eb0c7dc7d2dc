//go:build linux

package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/test/evidence"
)

// printed is what the scripts print: text of programs without a line's end before it, colours, call trees of several depths.
const printed = `Recording: run_a_tests
+++ Running case: test-cmd.run_a_tests
{{.metadata.name}}+++ exit code: 0
E1127 06:43 a log line about +++ exit code
+++ [1127 06:42:35] Testing b
valueRecording: run_b_tests
` + "\x1b[31m" + `core.sh:7: FAIL!` + "\x1b(B\x1b[m" + `
!!! [1127 06:42:35] Call tree:
!!! [1127 06:42:35]  1: /x/hack/lib/test.sh:4 kube::test::get_object_assert(...)
!!! [1127 06:42:35]  2: /x/test/cmd/core.sh:9 run_b_tests(...)
!!! [1127 06:42:35]  3: /x/test/cmd/legacy-script.sh:42 eVal(...)
+++ exit code: 1
+++ error: 1
Recording: run_c_tests
+++ [1127 06:42:35] Testing c
!!! [1127 06:42:35]  1: /x/third_party/forked/shell2junit/sh2ju.sh:9 run_c_tests(...)`

func TestFollow(t *testing.T) {
	folder := t.TempDir()
	clock := time.Unix(0, 0)
	now := func() time.Time { clock = clock.Add(time.Second); return clock }
	r := newResult("1")
	begun := 0
	if err := r.follow(strings.NewReader(printed), now, func() { begun++ }, folder); err != nil {
		t.Fatal(err)
	}
	if begun != 3 {
		t.Errorf("%d groups began", begun)
	}
	want := map[string]outcome{"run_a_tests": {passed, "", time.Second}, "run_b_tests": {failed, "core.sh:9", time.Second}, "run_c_tests": {cut, "Testing c", time.Second}}
	if !maps.Equal(r.Groups, want) {
		t.Errorf("got %v, want %v", r.Groups, want)
	}
	if o := r.of("run_d_tests"); o.State != notRun {
		t.Errorf("a group that was not named: %v", o)
	}
	b, err := os.ReadFile(filepath.Join(folder, "run_b_tests.log"))
	if err != nil || !strings.Contains(string(b), "FAIL!") || strings.Contains(string(b), "run_c_tests") {
		t.Errorf("the log of a failed group: %q, %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(folder, "run_a_tests.log")); err == nil {
		t.Error("a group that passed has a log")
	}
}

func TestGroups(t *testing.T) {
	module := t.TempDir()
	scripts := map[string]string{
		"legacy-script.sh": "  record_command run_a_tests\n  if x; then\n      record_command run_b_test\n  fi\n  record_command run_a_tests\n    record_command \"run_${pkg}_tests\"\n# record_command run_kubectl_tests\n",
		"a.sh":             "run_a_tests() {\n}\n", "b.sh": "function run_b_test() {\n}\n",
	}
	if err := os.MkdirAll(filepath.Join(module, "test/cmd"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range scripts {
		if err := os.WriteFile(filepath.Join(module, "test/cmd", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	known, err := readGroups(module)
	if want := []group{{"run_a_tests", "a.sh"}, {"run_b_test", "b.sh"}}; err != nil || !slices.Equal(known, want) {
		t.Fatalf("got %v, %v", known, err)
	}
	chosen, err := choose(known, []string{"a"})
	if err != nil || what(chosen) != "WHAT=a" {
		t.Errorf("chosen %v, %v", chosen, err)
	}
	for _, name := range []string{"none", "run_b_test"} {
		if _, err := choose(known, []string{name}); err == nil {
			t.Errorf("%s can be chosen", name)
		}
	}
}

func TestComparison(t *testing.T) {
	groups := []group{{"run_a_tests", "a.sh"}, {"run_b_tests", "b.sh"}, {"run_c_tests", "a.sh"}}
	ran := func(states ...state) *result {
		r := newResult("1")
		for i, s := range states {
			r.Groups[groups[i].name] = outcome{State: s, Took: time.Second}
			if s != passed {
				r.Groups[groups[i].name] = outcome{s, "a.sh:1", time.Second}
			}
		}
		return r
	}
	for _, c := range []struct {
		kanzen, peer *result
		fails        string
	}{
		{ran(passed, passed, passed), nil, ""},
		{ran(passed, failed), nil, "run_b_tests run_c_tests"},
		{ran(passed, failed, passed), ran(passed, failed, passed), ""},
		{ran(passed, passed, passed), ran(failed, passed, passed), ""},
		{ran(passed, failed, cut), ran(passed, failed, passed), "run_c_tests"},
	} {
		runs := map[string]*result{evidence.Kanzen: c.kanzen}
		if c.peer != nil {
			runs[evidence.Peer] = c.peer
		}
		err := verdict(groups, evidence.Kanzen, runs, "/")
		if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), ": "+c.fails+";") {
			t.Errorf("%v, want %q", err, c.fails)
		}
	}
	if err := verdict(groups, evidence.Peer, map[string]*result{evidence.Peer: ran(passed, failed, passed)}, "/"); err == nil {
		t.Error("a group that fails on kube-apiserver is told by nobody")
	}
	runs := map[string]*result{evidence.Kanzen: ran(passed, failed, passed), evidence.Peer: ran(passed, passed, failed)}
	if table := tableOf(groups, runs); !strings.Contains(table, "| run_b_tests | b.sh | failed at a.sh:1 | 1 | passed | 1 |\n") {
		t.Error(table)
	}
	suites := suitesOf(evidence.Suite{}, "m v1", groups, runs)
	if len(suites) != 2 || suites[0].Name != "a.sh" || suites[0].Servers[evidence.Kanzen].Passed != 2 || suites[0].Servers[evidence.Peer].Failing[0] != "run_c_tests" || len(suites[1].Differences) != 1 {
		t.Errorf("%+v", suites)
	}
}

func TestKeep(t *testing.T) {
	s := settings{cache: t.TempDir(), peer: true}
	groups := []group{{"run_a_tests", "a.sh"}}
	ran := newResult("1")
	ran.Groups["run_a_tests"] = outcome{failed, "a.sh:1", time.Second}
	if err := s.keep("m v1", groups, map[string]*result{evidence.Peer: ran}); err != nil {
		t.Fatal(err)
	}
	kept, err := evidence.LastRuns[*result](s.cache)
	if err != nil || len(kept) != 1 || kept[evidence.Peer].Version != "1" || !maps.Equal(kept[evidence.Peer].Groups, ran.Groups) {
		t.Errorf("kept %v, %v", kept, err)
	}
	if err := os.WriteFile(filepath.Join(s.cache, "last-kanzen.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := evidence.LastRuns[*result](s.cache); err == nil {
		t.Error("a broken file is read")
	}
}
