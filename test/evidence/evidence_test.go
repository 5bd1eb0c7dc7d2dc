package evidence

import (
	"strings"
	"testing"
)

func TestPage(t *testing.T) {
	s := Suite{Name: "a", Module: "m v1", Packages: []string{"./p"}, Of: 3, Servers: map[string]Server{
		Kanzen: {Passed: 3, Failed: 2, Failing: []string{"one", "two"}, Seconds: 5},
		Peer:   {Passed: 4, Failed: 1, Failing: []string{"two"}, Seconds: 9},
	}, Differences: []Difference{{"one", "fail", "pass"}}, Known: map[string]string{"two": "old | words"}}
	got := string(page([]Run{{Title: "Others", Suites: []Suite{s, {Name: "b"}}}}))
	for _, want := range []string{"| a | m v1 | 1 of 3 | 3 | 2 | 0 | 5 | 4 | 1 | 0 | 9 |", "| a | one | fail | pass |\n", "| a | two | old \\| words |\n", "| b |  | 0 | – | – | – | – | – ", "(), kube-apiserver ; : a\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the page has no %q:\n%s", want, got)
		}
	}
}

func TestPut(t *testing.T) {
	r := Run{Suites: []Suite{{Name: "a"}, {Name: "c"}, {Name: "gone"}}}
	r.Put(Suite{Name: "b"}, []string{"a", "b", "c"})
	r.Put(Suite{Name: "a", Date: "now"}, []string{"a", "b", "c"})
	var names []string
	for _, s := range r.Suites {
		names = append(names, s.Name+s.Date)
	}
	if got := strings.Join(names, " "); got != "anow b c" {
		t.Error(got)
	}
}
