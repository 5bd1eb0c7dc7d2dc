package matrix

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// run compares what kanzen does with what kube-apiserver does.
type run struct {
	t        *testing.T
	ours     *side
	routes   []route
	accepted []*accepted
	ignored  map[string]bool // objects that are not compared
	writes   []request       // accepted ones since the world was made anew
	found    []string
	codes    map[int]int // of kube-apiserver
}

func newRun(t *testing.T, ours *side, routes []route) *run {
	t.Helper()
	a, err := readAccepted()
	if err != nil {
		t.Fatal(err)
	}
	return &run{t: t, ours: ours, routes: routes, accepted: a, codes: map[int]int{}}
}

// both does something with two servers at once.
func (r *run) both(their *side, f func(s *side) error) {
	r.t.Helper()
	errs := [2]error{}
	var wg sync.WaitGroup
	for i, s := range []*side{r.ours, their} {
		wg.Go(func() { errs[i] = f(s) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			r.t.Fatal(err)
		}
	}
}

// live asks both servers. What nobody has accepted is asked again where the
// answers differ, because the caches of kube-apiserver may be late.
func (r *run) live(their *side, q *request) (mine, peers answer) {
	for try := 0; ; try++ {
		r.both(their, func(s *side) error {
			a, err := s.ask(q)
			if s == r.ours {
				mine = a
			} else {
				peers = a
			}
			return err
		})
		if try == 3 || same(q, mine, peers) || wrote(q, mine) || wrote(q, peers) || allowed(r.accepted, finding(q, mine, peers)) {
			break
		}
		time.Sleep(30 * time.Millisecond)
	}
	if (wrote(q, mine) || wrote(q, peers)) && lags(q) {
		time.Sleep(50 * time.Millisecond)
	}
	return mine, peers
}

// rest waits until kube-apiserver has taken up the world made anew.
func (r *run) rest(their *side) {
	if slices.ContainsFunc(r.writes, func(q request) bool { return strings.Contains(q.Target, "apiextensions.k8s.io") }) {
		r.both(their, func(s *side) error { return s.server.defined() })
	}
	if slices.ContainsFunc(r.writes, func(q request) bool { return lags(&q) }) {
		time.Sleep(150 * time.Millisecond)
	}
	r.writes = nil
}

// judge compares two answers. It returns true if the servers do not hold the
// same any more.
func (r *run) judge(q *request, mine, peers answer) (apart bool) {
	r.codes[peers.Code]++
	if wrote(q, peers) || wrote(q, mine) {
		r.writes = append(r.writes, *q)
	}
	// kube-apiserver may have done what it was asked for before it failed, and
	// deletes a whole collection before it sees that it cannot answer (406).
	if peers.Code == 0 || peers.Code == 406 && q.Method == "DELETE" {
		apart = true
	}
	if same(q, mine, peers) {
		return apart
	}
	if letIn(mine, peers) {
		r.t.Errorf("let in: %s", finding(q, mine, peers)) // whatever is accepted
		return true
	}
	r.differ(finding(q, mine, peers))
	return apart || wrote(q, mine) != wrote(q, peers)
}

// stored compares what is stored.
func (r *run) stored(their state) {
	for _, k := range r.ours.now.difference(their) {
		if r.ignored[k] {
			continue
		}
		what := "stored"
		if a, b := r.ours.now[k], their[k]; a != nil && b != nil && a.plain == b.plain {
			what = "managed fields of"
		}
		var by strings.Builder
		for _, q := range r.writes {
			if plain, err := url.PathUnescape(q.Target); err != nil || strings.Contains(plain, strings.Split(k, "/")[1]) {
				fmt.Fprintf(&by, "\n  %s %s as %q %s", q.Method, q.Target, q.User, q.Body)
			}
		}
		r.differ(fmt.Sprintf("%s %s\n  kanzen %s\n  peer   %s%s", what, k, r.ours.now[k].text(), their[k].text(), by.String()))
	}
}

func (r *run) differ(what string) {
	for _, a := range r.accepted {
		if a.match.MatchString(what) {
			a.used++
			return
		}
	}
	r.found = append(r.found, what)
	if len(r.found) <= 100 {
		r.t.Error(what)
	}
}

// letIn says that somebody whom kube-apiserver refuses is served, or that somebody whom it does not know is told more than
// that.
func letIn(mine, peers answer) bool {
	return peers.Code == 403 && mine.Code < 400 || peers.Code == 401 && mine.Code != 401
}

// unused fails for accepted differences that there are no more.
func (r *run) unused() {
	for _, a := range r.accepted {
		if a.used == 0 && !a.Rare {
			r.t.Errorf("no difference is %s (%s)", a.Pattern, a.Reason)
		}
	}
}

func (r *run) summary() string {
	known := 0
	for _, a := range r.accepted {
		known += a.used
	}
	var codes []string
	for _, c := range slices.Sorted(maps.Keys(r.codes)) {
		codes = append(codes, fmt.Sprintf("%d: %d", c, r.codes[c]))
	}
	return fmt.Sprintf("%d differences, %d accepted ones; codes of kube-apiserver %s", len(r.found), known, strings.Join(codes, ", "))
}

// finding writes a difference down, with the path once more where it is escaped.
func finding(q *request, mine, peers answer) string {
	line := func(target string) string {
		return fmt.Sprintf("%s %s as %q | kanzen %s | peer %s", q.Method, target, q.User, mine, peers)
	}
	out := line(q.Target) + " | " + encode(q.Header) + " " + q.Body
	if plain, err := url.PathUnescape(q.Target); err == nil && plain != q.Target {
		out += "\n" + line(plain)
	}
	return out
}

func (a answer) String() string {
	out := fmt.Sprint(a.Code)
	if a.Reason != "" {
		out += " " + a.Reason
	}
	if a.Object != "" {
		out += " {" + a.Object + "}"
	}
	return out + " " + fmt.Sprintf("%q", a.Text)
}

// wrote says that a request may have changed something.
func wrote(q *request, a answer) bool {
	return a.Code/100 == 2 && !streams(q) && !slices.Contains([]string{"GET", "HEAD", "OPTIONS"}, q.Method)
}

func same(q *request, mine, peers answer) bool {
	if behind(q, mine) && behind(q, peers) {
		return true
	}
	return mine.Code == peers.Code && mine.Reason == peers.Reason && mine.Message == peers.Message && mine.Object == peers.Object
}

// behind says that a request has come through to a kubelet, pod or service,
// which neither server reaches.
func behind(q *request, a answer) bool {
	path, _, _ := strings.Cut(strings.ToLower(q.Target), "?")
	for _, s := range []string{"exec", "attach", "portforward", "proxy", "log"} {
		if strings.Contains(path, s) {
			return a.Code == 400 && a.Text == "Upgrade request required" || a.Code == 500 || a.Code == 502 || a.Code == 503 || a.Code == 504 || a.Code == 101
		}
	}
	return false
}

// lags says that kube-apiserver takes a written object up only after a moment.
func lags(q *request) bool {
	path, _, _ := strings.Cut(q.Target, "?")
	for _, s := range []string{rbac, "apiextensions", "apiregistration", "admissionregistration", "flowcontrol", "serviceaccounts", "limitranges", "resourcequotas", "classes", "nodes", "servicecidrs", "ipaddresses"} {
		if strings.Contains(path, s) {
			return true
		}
	}
	i := strings.LastIndex(path, "/namespaces")
	return i >= 0 && strings.Count(path[i+1:], "/") <= 2
}
