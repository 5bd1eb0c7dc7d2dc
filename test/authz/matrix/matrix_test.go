package matrix

import (
	"cmp"
	"flag"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
	"github.com/kanzen-io/kanzen/test/peer"
)

var (
	count  = flag.Int("requests", 0, "how many requests to make of kube-apiserver and kanzen (default: only what is recorded is asked; with -record 4000)")
	seed   = flag.Uint64("seed", 1, "what the requests are made from")
	report = flag.String("report", "", "a file for all differences")
)

const (
	// batch is how many requests are made before what is stored is compared.
	batch = 300
	// whole is how many requests meet every accepted difference.
	whole = 50_000
)

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
	s := kanzentest.Start(t, kanzentest.Listen(), kanzentest.Controllers(),
		kanzentest.Flags("--token-auth-file="+tokenFile(t), "--anonymous-auth", "--enable-admission-plugins=NodeRestriction"))
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
		}
	}
	if err := s.server.defined(); err != nil {
		t.Fatal(err)
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

// restore makes the world anew.
func (s *side) restore(routes []route, ignored map[string]bool) (err error) {
	s.now, err = s.server.restore(routes, s.now, s.base, ignored)
	return err
}

func (s *side) ask(q *request) (answer, error) { return s.server.ask(q, s.filled(q)) }

// TestAgainstPeer puts the same requests to kanzen and to kube-apiserver.
func TestAgainstPeer(t *testing.T) {
	if *count == 0 && !*peer.Recording {
		t.Skip("TestRecorded asks what was recorded; run with -requests or -record")
	}
	*count = cmp.Or(*count, 4000)
	docs, err := readDocuments()
	if err != nil {
		t.Fatal(err)
	}
	their, ours := newPeer(t), newKanzen(t)
	routes := their.prepare(t, docs)
	ours.prepare(t, docs)
	r := newRun(t, ours, routes)
	r.ignored = map[string]bool{}
	for _, k := range ours.base.difference(their.base) {
		r.ignored[k] = true
		t.Logf("not compared, because the servers have made it differently: %s", k)
	}
	var lines []line
	begin, g := time.Now(), newGenerator(*seed, routes, users(), docs)
	for n := 1; n <= *count; n++ {
		q := g.next()
		mine, peers := r.live(their, &q)
		apart := r.judge(&q, mine, peers)
		lines = append(lines, line{Request: &q, Answer: &peers})
		if apart || n%batch == 0 || n == *count {
			r.both(their, func(s *side) (err error) { s.now, err = s.server.state(routes); return err })
			if !apart {
				r.stored(their.now)
			}
			lines = append(lines, line{Settle: true, Stored: delta(their.base, their.now, apart)})
			r.both(their, func(s *side) error { return s.restore(routes, r.ignored) })
			r.rest(their)
		}
		if n%6000 == 0 {
			t.Logf("%d requests in %v", n, time.Since(begin).Round(time.Second))
		}
	}
	t.Logf("%d requests in %v: %s", *count, time.Since(begin).Round(time.Second), r.summary())
	if *peer.Recording {
		if err := write(lines); err != nil {
			t.Fatal(err)
		}
	}
	if *count >= whole {
		r.unused()
	}
	if *report != "" {
		if err := os.WriteFile(*report, []byte(strings.Join(r.found, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// custom says whether a request reads custom resources.
func custom(q *request) bool {
	return q.Method == "GET" && strings.HasPrefix(q.Target, "/apis/matrix.test/")
}

// TestRecorded puts to kanzen what kube-apiserver was asked once.
func TestRecorded(t *testing.T) {
	docs, err := readDocuments()
	if err != nil {
		t.Fatal(err)
	}
	lines, err := read()
	if err != nil {
		t.Fatal(err)
	}
	ours := newKanzen(t)
	routes := ours.prepare(t, docs)
	r := newRun(t, ours, routes)
	apart := false
	for _, l := range lines {
		if q := l.Request; q != nil {
			a, err := ours.ask(q)
			// Changes of a definition are in force a moment after their answer.
			for end := time.Now().Add(2 * time.Second); err == nil && custom(q) && !same(q, a, *l.Answer) && time.Now().Before(end); {
				a, err = ours.ask(q)
			}
			if err != nil {
				t.Fatal(err)
			}
			apart = r.judge(q, a, *l.Answer) || apart
			continue
		}
		if ours.now, err = ours.server.state(routes); err != nil {
			t.Fatal(err)
		}
		if l.Stored != nil && !apart {
			r.stored(ours.base.with(l.Stored))
		}
		if err := ours.restore(routes, nil); err != nil {
			t.Fatal(err)
		}
		r.writes, apart = nil, false
	}
	t.Log(r.summary())
}
