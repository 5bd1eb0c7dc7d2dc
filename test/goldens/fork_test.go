package goldens

import (
	"bytes"
	"flag"
	"net/http"
	"strings"
	"sync"
	"testing"
)

var whole = flag.Bool("fork.all", false, "ask a fork everything, and not every tenth base")

// TestFork asks a server, and a fork of another new one, what was asked of kube-apiserver. A fork answers as a server does, to which
// TestGoldens holds kube-apiserver's answers, but for what it does differently by design.
func TestFork(t *testing.T) {
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
	var mu sync.Mutex
	want := map[string]Expect{}
	runner(t).run(cases, 8, func(c *Case, got Expect) {
		mu.Lock()
		defer mu.Unlock()
		want[c.ID] = got
	})
	r := runner(t)
	if resp, body, err := r.C.do(http.MethodPost, "/forks/goldens", "", "", nil); err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatalf("%v %s", err, body)
	}
	r.C.URL += "/forks/goldens"
	asked, differ, designed := 0, 0, map[string]int{}
	r.run(cases, 8, func(c *Case, got Expect) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		want := want[c.ID]
		want.Object, got.Object = withoutAdditions(want.Object), withoutAdditions(got.Object)
		for _, same := range verdict(want, got) {
			if same {
				continue
			}
			if why := byDesign(c); why != "" {
				designed[why]++
				return
			}
			differ++
			var b bytes.Buffer
			diff(&b, "  ", plain(want), plain(got))
			t.Logf("%s\n  %s %s\n%s%s", c.ID, c.Method, c.Path, b.String(), strings.Join(got.said, "\n"))
			return
		}
	})
	for why, n := range designed {
		t.Logf("%d differ by design: %s", n, why)
	}
	t.Logf("of %d answers %d differ otherwise", asked, differ)
	if asked < 1000 || differ > asked/2000 { // one of two thousand meets the server while it works by itself
		t.Errorf("of %d answers %d differ", asked, differ)
	}
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
