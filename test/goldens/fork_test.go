package goldens

import (
	"bytes"
	"flag"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

var whole = flag.Bool("fork.all", false, "ask a fork everything, and not every tenth base")

// TestFork asks a server, and a fork of another new one, what was asked of kube-apiserver. A fork answers as a server does, to which
// TestGoldens holds kube-apiserver's answers, but for what it does differently by design.
func TestFork(t *testing.T) {
	t.Parallel()
	s := set{name: "default", every: 10}
	if *whole {
		s.every = 1
	}
	var cases []*Case
	for _, c := range s.cases(t) {
		if c.Base == "misc" || s.asks(c.Base) {
			cases = append(cases, c)
		}
	}
	server, fork := runner(t), runner(t)
	if resp, body, err := fork.C.do(http.MethodPost, "/forks/goldens", "", "", nil); err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatalf("%v %s", err, body)
	}
	fork.C.URL += "/forks/goldens"
	var wants, gots map[string]Expect
	var both sync.WaitGroup // most of the time of each is waiting
	both.Go(func() { wants = answersOf(server, cases) })
	both.Go(func() { gots = answersOf(fork, cases) })
	both.Wait()
	asked, differ, designed := 0, 0, map[string]int{}
	for _, c := range cases {
		want, hasWant := wants[c.ID]
		got, hasGot := gots[c.ID]
		if !hasWant || !hasGot {
			continue
		}
		asked++
		want.Object, got.Object = withoutAdditions(want.Object), withoutAdditions(got.Object)
		if !slices.Contains(slices.Collect(maps.Values(verdict(want, got))), false) {
			continue
		}
		if why := byDesign(c); why != "" {
			designed[why]++
			continue
		}
		differ++
		var b bytes.Buffer
		diff(&b, "  ", plain(want), plain(got))
		t.Logf("%s\n  %s %s\n%s%s", c.ID, c.Method, c.Path, b.String(), strings.Join(got.said, "\n"))
	}
	for why, n := range designed {
		t.Logf("%d differ by design: %s", n, why)
	}
	t.Logf("of %d answers %d differ otherwise", asked, differ)
	if asked < 1000 || differ > asked/2000 { // one of two thousand meets the server while it works by itself
		t.Errorf("of %d answers %d differ", asked, differ)
	}
}

// answersOf returns what is answered, by the names of cases.
func answersOf(r *Runner, cases []*Case) map[string]Expect {
	var mu sync.Mutex
	out := map[string]Expect{}
	r.run(cases, 8, func(c *Case, got Expect) {
		mu.Lock()
		defer mu.Unlock()
		out[c.ID] = got
	})
	return out
}

// byDesign is why a fork may answer a request in another way than its server; "": it may not. docs/forks.md tells it to users.
func byDesign(c *Case) string {
	if strings.HasSuffix(c.ID, "/special/merge-families") {
		return "the refusal names the address of a service, which each server chooses for itself"
	}
	path, _, _ := strings.Cut(c.Path, "?")
	for _, d := range []struct{ part, why string }{
		{"/exec", "nothing of pods and nodes is reached"}, {"/attach", "nothing of pods and nodes is reached"}, {"/portforward", "nothing of pods and nodes is reached"},
		{"/log", "nothing of pods and nodes is reached"}, {"/proxy", "nothing of pods, nodes and services is reached"},
		{"/token", "no tokens are signed"}, {"/openid", "no tokens are signed"}, {"/.well-known", "no tokens are signed"},
		{"/apiregistration.k8s.io/", "extension servers are not served, so nobody says whether they are available"},
		{"/forks", "a fork has no forks"},
	} {
		if strings.HasSuffix(path, d.part) || strings.Contains(path, d.part+"/") || strings.HasSuffix(d.part, "/") && strings.Contains(path, d.part) {
			return d.why
		}
	}
	return ""
}
