package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kanzen-io/kanzen/test/evidence"
	"github.com/kanzen-io/kanzen/test/suite"
)

// tests are those of packages on one server: how each ended, and why it was skipped.
type tests struct {
	outcomes map[string]suite.Outcome
	reasons  map[string]string
	took     time.Duration
}

func newTests() *tests {
	return &tests{outcomes: map[string]suite.Outcome{}, reasons: map[string]string{}}
}

func (t *tests) add(other *tests) {
	maps.Copy(t.outcomes, other.outcomes)
	maps.Copy(t.reasons, other.reasons)
	t.took += other.took
}

// addGo adds tests of Go's: parts of tests, and whole tests that have no parts or that failed although their parts did not. A test that is a
// suite of Ginkgo is left to the report of its specs, if it came to make one.
func (t *tests) addGo(pkg string, r suite.Results) {
	if len(r.Outcomes) == 0 {
		t.outcomes[pkg+" TestMain"] = "cut" // it failed to set up
	}
	whole, failed := map[string]bool{}, map[string]bool{}
	for name, outcome := range r.Outcomes {
		for i := strings.LastIndexByte(name, '/'); i > 0; i = strings.LastIndexByte(name[:i], '/') {
			whole[name[:i]] = true
			if outcome == "fail" || outcome == "cut" {
				failed[name[:i]] = true
			}
		}
	}
	for name, outcome := range r.Outcomes {
		if whole[name] && (failed[name] || outcome == "pass" || outcome == "skip") || r.Ginkgo[name] && outcome != "cut" {
			continue
		}
		shown := seeds.ReplaceAllString(pkg+" "+name, "random")
		if had := t.outcomes[shown]; had == "" || had == "pass" { // of several with seeds one that failed counts
			t.outcomes[shown], t.reasons[shown] = outcome, r.Reasons[name]
		}
	}
}

// seeds are in the names of tests that are others each time, which cannot be compared one by one.
var seeds = regexp.MustCompile(`random\(\d+\)`)

// states of Ginkgo's specs; all others are failures.
var states = map[string]suite.Outcome{"passed": "pass", "skipped": "skip", "pending": "skip"}

// addSpecs adds those of a report of Ginkgo's. What sets a suite up is in it like a spec, and is of interest if it failed.
func (t *tests) addSpecs(pkg, report string) error {
	b, err := os.ReadFile(report)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var suites []struct {
		SpecReports []struct {
			ContainerHierarchyTexts           []string
			LeafNodeType, LeafNodeText, State string
			Failure                           struct{ Message string }
		}
	}
	if err := json.Unmarshal(b, &suites); err != nil {
		return fmt.Errorf("%s: %w", report, err)
	}
	for _, s := range suites {
		for _, spec := range s.SpecReports {
			outcome, known := states[spec.State]
			if !known {
				outcome = "fail"
			}
			if spec.State == "skipped" && spec.Failure.Message == "" || spec.LeafNodeType != "It" && outcome != "fail" {
				continue // left out
			}
			name := t.free(strings.Join(append(append([]string{pkg}, spec.ContainerHierarchyTexts...), spec.LeafNodeText), " "))
			t.outcomes[name], t.reasons[name] = outcome, spec.Failure.Message
			if spec.State == "pending" {
				t.reasons[name] = "pending"
			}
		}
	}
	return nil
}

// free is the name of one of several specs of the same text.
func (t *tests) free(name string) string {
	for n, first := 2, name; ; n++ {
		if _, taken := t.outcomes[name]; !taken {
			return name
		}
		name = first + " #" + strconv.Itoa(n)
	}
}

// server counts the tests.
func (t *tests) server(version string) evidence.Server {
	s := evidence.Server{Version: version, Seconds: int(t.took.Seconds())}
	for _, name := range slices.Sorted(maps.Keys(t.outcomes)) {
		switch t.outcomes[name] {
		case "pass":
			s.Passed++
		case "skip":
			s.Skipped++
		default:
			s.Failed++
			s.Failing = append(s.Failing, name)
		}
	}
	return s
}

// skipped counts the tests that skipped themselves for the same reason.
func (t *tests) skipped() (out []evidence.Reason) {
	counts := map[string]int{}
	for name, outcome := range t.outcomes {
		if outcome == "skip" {
			counts[t.reasons[name]]++
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, evidence.Reason{Tests: strconv.Itoa(counts[reason]), Reason: reason})
	}
	return out
}

func differences(kanzen, peer map[string]suite.Outcome) (out []evidence.Difference) {
	names := maps.Clone(kanzen)
	maps.Copy(names, peer)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if kanzen[name] != peer[name] {
			out = append(out, evidence.Difference{Test: name, Kanzen: said(kanzen[name]), Peer: said(peer[name])})
		}
	}
	return out
}

func said(o suite.Outcome) string {
	if o == "" {
		return "not run"
	}
	return string(o)
}
