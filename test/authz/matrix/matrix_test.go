package matrix

import (
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/internal/server"
	"github.com/kanzen-io/kanzen/pkg/kanzentest"
	"github.com/kanzen-io/kanzen/test/peer"
)

var (
	count  = flag.Int("requests", 4000, "how many requests to make")
	seed   = flag.Uint64("seed", 1, "what the requests are made from")
	record = flag.Bool("record", false, "write what kube-apiserver answers into testdata")
	report = flag.String("report", "", "a file for all differences")
)

// batch is how many requests are made before what is stored is compared.
const batch = 300

func tokenFile(t *testing.T) string {
	t.Helper()
	file := t.TempDir() + "/tokens"
	if err := os.WriteFile(file, []byte(tokens(users())), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func newPeer(t *testing.T) *side {
	c := peer.Start(t, "--token-auth-file="+tokenFile(t), "--enable-admission-plugins=NodeRestriction")
	u, err := url.Parse(c.Host)
	if err != nil {
		t.Fatal(err)
	}
	return &side{server: &asked{name: "kube-apiserver", address: u.Host}}
}

func newKanzen(t *testing.T) *side {
	s := kanzentest.Start(t, kanzentest.Listen(), kanzentest.Controllers(), func(c *server.Config) {
		c.TokenAuthFile, c.AnonymousAuth, c.AnonymousHealthOnly = tokenFile(t), true, false
		c.EnableAdmission = []string{"NodeRestriction"}
	})
	return &side{server: &asked{name: "kanzen", address: s.Address()}}
}

// side is one of the two servers with what it holds.
type side struct {
	server *asked
	base   state // when the world is new
	now    state
}

// prepare makes the world.
func (s *side) prepare(t *testing.T, docs *documents) []route {
	t.Helper()

	crds := 0
	s.server.made = map[string]map[string]any{}
	post := func(o map[string]any, list string) {
		s.server.made[list+"/"+text(metadata(o)["name"])] = clone(o)
		if _, err := s.server.do("POST", list, "application/json", o, http.StatusConflict); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range docs.world {
		if o["kind"] == "CustomResourceDefinition" {
			post(o, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
			crds++
		}
	}
	for range 200 {
		n := 0
		for _, path := range []string{"/apis/matrix.test/v1/widgets", "/apis/matrix.test/v2/gizmos", "/apis/matrix.test/v1/plains"} {
			if _, err := s.server.raw(path); err == nil {
				n++
			}
		}
		if n == crds {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	var routes []route
	for range 100 { // until discovery has the custom resources
		var err error
		if routes, err = discovered(s.server); err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(routes, func(r route) bool { return r.group == "matrix.test" && r.resource == "plains" }) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, o := range docs.world {
		if o["kind"] == "CustomResourceDefinition" {
			continue
		}
		i := slices.IndexFunc(routes, func(r route) bool {
			return r.groupVersion() == o["apiVersion"] && r.kind.kind == o["kind"] && r.subresource == ""
		})
		if i < 0 {
			t.Fatalf("%s does not serve %s %s", s.server.name, o["apiVersion"], o["kind"])
		}
		root := "/" + strings.Join(routes[i].root(), "/")
		if !routes[i].namespaced {
			post(o, root+"/"+routes[i].resource)
			continue
		}
		for _, ns := range []string{"ns1", "ns2"} {
			within(o, ns)
			post(o, root+"/namespaces/"+ns+"/"+routes[i].resource)
		}
	}
	for _, o := range roles(users()) {
		list := "/apis/" + rbac + "/v1/" + strings.ToLower(text(o["kind"])) + "s"
		if ns := text(metadata(o)["namespace"]); ns != "" {
			list = "/apis/" + rbac + "/v1/namespaces/" + ns + "/" + strings.ToLower(text(o["kind"])) + "s"
		}
		post(o, list)
	}
	time.Sleep(500 * time.Millisecond) // the authorizer of kube-apiserver does not say when it has seen the roles
	var err error
	if s.base, err = s.server.state(routes); err != nil {
		t.Fatal(err)
	}
	s.now = s.base
	return routes
}

// filled puts the object's uid and version into a body.
func (s *side) filled(q *request) string {
	if !strings.Contains(q.Body, "${") {
		return q.Body
	}
	uid, rv := "none", "1"
	if o := s.now[q.Key]; o != nil {
		uid, rv = text(metadata(o.raw)["uid"]), text(metadata(o.raw)["resourceVersion"])
	}
	return strings.NewReplacer("${uid}", uid, "${rv}", rv).Replace(q.Body)
}

func (s *side) ask(q *request) (answer, error) { return s.server.ask(q, s.filled(q)) }

// both does something with two servers at once.
func both(t *testing.T, a, b *side, f func(s *side) error) {
	t.Helper()
	errs := [2]error{}
	var wg sync.WaitGroup
	for i, s := range []*side{a, b} {
		wg.Go(func() { errs[i] = f(s) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// finding is a difference between the servers.
type finding struct {
	q           request
	ours, their answer
}

func (f finding) String() string {
	return fmt.Sprintf("%s %s as %q | %s | %s | body %s", f.q.Method, f.q.Target, f.q.User, "kanzen "+f.ours.String(), "peer "+f.their.String(), encode(f.q.Header)+" "+f.q.Body)
}

func (a answer) String() string {
	out := fmt.Sprint(a.Code)
	if a.Reason != "" {
		out += " " + a.Reason
	}
	if a.Object != "" {
		out += " {" + a.Object + "}"
	}
	return out + " " + fmt.Sprintf("%q", a.text)
}

// wrote says that a request may have changed something.
func wrote(q *request, a answer) bool {
	return a.Code/100 == 2 && !streams(q) && !slices.Contains([]string{"GET", "HEAD", "OPTIONS"}, q.Method)
}

func same(q *request, ours, their answer) bool {
	if behind(q, ours) && behind(q, their) {
		return true
	}
	return ours.Code == their.Code && ours.Reason == their.Reason && ours.Message == their.Message && ours.Object == their.Object
}

// behind says that a request has come through to a kubelet, pod or service,
// which neither server reaches.
func behind(q *request, a answer) bool {
	path, _, _ := strings.Cut(q.Target, "?")
	for _, s := range []string{"exec", "attach", "portforward", "proxy", "log"} {
		if strings.Contains(strings.ToLower(path), s) {
			return a.Code == 500 || a.Code == 502 || a.Code == 503 || a.Code == 504 || a.Code == 101
		}
	}
	return false
}

// lags says that kube-apiserver takes a written object up only after a moment.
func lags(q *request) bool {
	for _, s := range []string{rbac, "apiextensions", "apiregistration", "admissionregistration", "flowcontrol", "/namespaces", "serviceaccounts", "limitranges", "resourcequotas", "classes", "nodes", "servicecidrs", "ipaddresses"} {
		path, _, _ := strings.Cut(q.Target, "?")
		if s == "/namespaces" {
			if i := strings.LastIndex(path, s); i >= 0 && strings.Count(path[i+1:], "/") <= 2 {
				return true
			}
			continue
		}
		if strings.Contains(path, s) {
			return true
		}
	}
	return false
}

// TestAgainstPeer puts the same requests to kanzen and to kube-apiserver.
func TestAgainstPeer(t *testing.T) {
	docs, err := readDocuments()
	if err != nil {
		t.Fatal(err)
	}
	exceptions, err := readAccepted()
	if err != nil {
		t.Fatal(err)
	}
	their, ours := newPeer(t), newKanzen(t)
	routes := their.prepare(t, docs)
	ours.prepare(t, docs)
	ignored := map[string]bool{}
	for _, k := range ours.base.difference(their.base) {
		ignored[k] = true
		t.Logf("not compared: %s\n  kanzen %s\n  peer   %s", k, ours.base[k].text(), their.base[k].text())
	}
	var all []string
	differ := func(what string) {
		if allowed(exceptions, what) {
			return
		}
		all = append(all, what)
		if len(all) <= 100 {
			t.Error(what)
		}
	}
	g := newGenerator(*seed, routes, users(), docs)
	codes := map[int]int{}
	begin := time.Now()
	var writes []request
	var inSettle, inSleep time.Duration
	nSettle := 0
	settle := func(compare bool) {
		defer func(b time.Time) { inSettle += time.Since(b); nSettle++ }(time.Now())
		both(t, ours, their, func(s *side) (err error) { s.now, err = s.server.state(routes); return err })
		changed := ours.now.difference(their.now)
		for _, k := range changed {
			if compare && !ignored[k] {
				var by []string
				for _, q := range writes {
					if strings.Contains(q.Target, strings.Split(k, "/")[1]) {
						by = append(by, fmt.Sprintf("%s %s as %s %s", q.Method, q.Target, q.User, q.Body))
					}
				}
				what := "stored"
				if a, b := ours.now[k], their.now[k]; a != nil && b != nil && a.plain == b.plain {
					what = "managed fields of"
				}
				differ(fmt.Sprintf(what+" %s\n  kanzen %s\n  peer   %s\n  %s", k, ours.now[k].text(), their.now[k].text(), strings.Join(by, "\n  ")))
			}
		}
		both(t, ours, their, func(s *side) (err error) { s.now, err = s.server.restore(routes, s.now, s.base, ignored); return err })
		if slices.ContainsFunc(writes, func(q request) bool { return lags(&q) }) {
			time.Sleep(150 * time.Millisecond)
		}
		writes = nil
	}
	for n := 1; n <= *count; n++ {
		q := g.next()
		var mine, peers answer
		put := func() {
			both(t, ours, their, func(s *side) error {
				a, err := s.ask(&q)
				if s == ours {
					mine = a
				} else {
					peers = a
				}
				return err
			})
		}
		put()
		for try := 0; try < 3 && !same(&q, mine, peers) && !wrote(&q, mine) && !wrote(&q, peers); try++ {
			inSleep += 30 * time.Millisecond
			time.Sleep(30 * time.Millisecond) // reads of kube-apiserver's caches may be late
			put()
		}
		codes[peers.Code]++
		if wrote(&q, peers) || wrote(&q, mine) {
			writes = append(writes, q)
			if lags(&q) {
				time.Sleep(50 * time.Millisecond)
				inSleep += 50 * time.Millisecond
			}
		}
		apart := false
		if !same(&q, mine, peers) {
			differ(finding{q, mine, peers}.String())
			apart = wrote(&q, mine) != wrote(&q, peers)
		}
		if apart || n%batch == 0 || n == *count {
			settle(!apart)
		}
		if n%3000 == 0 {
			t.Log(inSettle, nSettle, inSleep)
			t.Logf("%d requests in %v, %d differences", n, time.Since(begin).Round(time.Second), len(all))
		}
	}
	t.Logf("%d requests in %v, %d differences; kube-apiserver's codes: %v", *count, time.Since(begin).Round(time.Second), len(all), codes)
	if *report != "" {
		if err := os.WriteFile(*report, []byte(strings.Join(all, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
