package suite

import (
	"maps"
	"regexp"
	"strings"
	"testing"
)

func TestFollow(t *testing.T) {
	r := Results{Outcomes: map[string]Outcome{}, Reasons: map[string]string{}, Ginkgo: map[string]bool{}}
	whole := follow(strings.NewReader(strings.ReplaceAll(`^=== RUN   TestA
^=== RUN   TestA/one
    a_test.go:3: text
half a line^--- PASS: TestA (0.10s)
    ^--- FAIL: TestA/one (0.00s)
^=== RUN   TestB
    b_test.go:7: because
^--- SKIP: TestB (0.00s)
^=== RUN   TestSpecs
Running Suite: All - /tmp
^--- PASS: TestSpecs (0.00s)
^=== RUN   TestC
panic: test timed out`, "^", mark)), r)
	if whole {
		t.Error("a panic is no end")
	}
	if want := (map[string]Outcome{"TestA": "pass", "TestA/one": "fail", "TestB": "skip", "TestC": "cut", "TestSpecs": "pass"}); !maps.Equal(r.Outcomes, want) {
		t.Errorf("outcomes %v, want %v", r.Outcomes, want)
	}
	if want := (map[string]string{"TestB": "because"}); !maps.Equal(r.Reasons, want) {
		t.Errorf("reasons %v, want %v", r.Reasons, want)
	}
	if want := (map[string]bool{"TestSpecs": true}); !maps.Equal(r.Ginkgo, want) {
		t.Errorf("suites of Ginkgo %v, want %v", r.Ginkgo, want)
	}
}

func TestSkipPattern(t *testing.T) {
	pattern := regexp.MustCompile(skipPattern([]string{"TestX", "TestXY"}, map[string]Outcome{"TestZ": "cut", "TestZ/part": "pass"}))
	for name, want := range map[string]bool{"TestX": true, "TestXY": true, "TestXYZ": false, "ATestX": false, "TestZ": true, "part": false} {
		if pattern.MatchString(name) != want {
			t.Errorf("%s: %t", name, !want)
		}
	}
}
