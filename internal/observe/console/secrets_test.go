package console

import (
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/access/authn"
	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/request"
)

func named(name string) user.Info { return &user.DefaultInfo{Name: name} }

func TestSecrets(t *testing.T) {
	clk := testingclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	s := newSecrets(clk, rand.Reader, time.Hour, 10*time.Minute, 3)
	issue := func(name string) string {
		t.Helper()
		text, err := s.issue(named(name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	a := issue("a")
	for range 8 {
		clk.Step(9 * time.Minute)
		if u := s.find(a); (u != nil) != (clk.Since(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) < time.Hour) {
			t.Fatalf("after %v: %v", clk.Now(), u)
		}
	}
	idle := issue("a")
	clk.Step(10 * time.Minute)
	if s.find(idle) != nil {
		t.Error("a secret that nobody used for long is good")
	}
	once := issue("a")
	if u := s.take(once); u == nil || u.GetName() != "a" || s.take(once) != nil || s.find(once) != nil {
		t.Error("a secret can be taken once")
	}
	if s.find("") != nil || s.find(once+"x") != nil {
		t.Error("something is found that nobody has made")
	}
	for hash := range s.all {
		if strings.Contains(fmt.Sprintf("%s", hash), once) {
			t.Error("a secret is kept")
		}
	}
	first := issue("b")
	for range 3 {
		clk.Step(time.Second)
		issue("b")
	}
	if s.find(first) != nil || len(s.all) != 3 {
		t.Errorf("b has %d secrets", len(s.all))
	}
	clk.Step(time.Hour)
	if issue("z"); len(s.all) != 1 {
		t.Errorf("%d secrets are kept beyond their time", len(s.all))
	}
}

// TestSecretsAreShared signs users of many classes in, in random order and numbers, and looks after each of them who had to
// give way: whoever signs in gets in, administrators lose nothing to others, and a class loses nothing to one that has more.
func TestSecretsAreShared(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := mathrand.New(mathrand.NewPCG(seed, 1))
			clk := testingclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
			s := newSecrets(clk, rand.Reader, sessionLife, sessionIdle, maxSessions)
			users := manyUsers(r)
			var texts []string
			for n := range 2500 {
				u := users[r.IntN(len(users))]
				before := sizesOf(s)
				text, err := s.issue(u)
				if err != nil {
					t.Fatal(err)
				}
				if found := s.find(text); found == nil || found.GetName() != u.GetName() {
					t.Fatalf("%d: %s has signed in, and is not", n, u.GetName())
				}
				checkShares(t, before, sizesOf(s), classOf(u))
				texts = append(texts, text)
				for range r.IntN(3) {
					s.find(texts[r.IntN(len(texts))])
				}
				if r.IntN(20) == 0 {
					s.take(texts[r.IntN(len(texts))])
				}
				if r.IntN(50) == 0 { // not so long that a secret expires: who loses one, loses it to somebody
					clk.Step(time.Duration(r.IntN(1000)) * time.Millisecond)
				}
			}
		})
	}
}

// manyUsers has a few who sign in often, namespaces full of service accounts, and users who sign in once in a while.
func manyUsers(r *mathrand.Rand) []user.Info {
	var all []user.Info
	for n := range 20 + r.IntN(300) {
		all = append(all, named(fmt.Sprint("user-", n)))
	}
	for namespace := range r.IntN(40) {
		for n := range 1 << r.IntN(8) {
			all = append(all, named(fmt.Sprintf("system:serviceaccount:ns-%d:sa-%d", namespace, n)))
		}
	}
	for n := range 1 + r.IntN(40) {
		all = append(all, &user.DefaultInfo{Name: fmt.Sprint("admin-", n), Groups: []string{"system:authenticated", user.SystemPrivilegedGroup}})
	}
	return all
}

// sizesOf counts the secrets of each class.
func sizesOf(s *secrets) map[class]int {
	sizes := map[class]int{}
	for _, h := range s.all {
		sizes[h.class]++
	}
	return sizes
}

func checkShares(t *testing.T, before, after map[class]int, by class) {
	t.Helper()
	parts := map[bool]int{}
	for c, n := range after {
		parts[c.administrator] += n
		if !c.namespace && n > maxSessions || n > maxSessions*perNamespace {
			t.Fatalf("%v has %d", c, n)
		}
	}
	if parts[true] > maxAdministrators || parts[false] > maxOthers {
		t.Fatalf("there are %v", parts)
	}
	for c, n := range before {
		if after[c] < n && c != by && (c.administrator != by.administrator || n < after[by]) {
			t.Fatalf("%v has lost one of %d to %v, which has %d", c, n, by, after[by])
		}
	}
}

// TestOneNamespaceFillsNothing has a thousand service accounts of a namespace sign in, and then others.
func TestOneNamespaceFillsNothing(t *testing.T) {
	clk := testingclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	s := newSecrets(clk, rand.Reader, sessionLife, sessionIdle, maxSessions)
	for n := range 2 * maxAll {
		if _, err := s.issue(named(fmt.Sprintf("system:serviceaccount:tenant:sa-%d", n))); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.all) != maxSessions*perNamespace {
		t.Errorf("a namespace has %d secrets", len(s.all))
	}
	for n := range 2 * maxAll {
		if _, err := s.issue(named(fmt.Sprint(n))); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.all) != maxOthers {
		t.Errorf("users have %d secrets", len(s.all))
	}
}

// TestAnonymousLeavesNothing sends the console what somebody unknown can send, and looks what is kept.
func TestAnonymousLeavesNothing(t *testing.T) {
	unknown := authn.New(authn.Config{Clock: clock.RealClock{}, Anonymous: authn.Anonymous{All: true}, Registry: prometheus.NewRegistry()})
	c := New(Config{Clock: clock.RealClock{}, WriteError: chain.WriteStatus})
	served := func(w http.ResponseWriter, r *http.Request) {
		if u, ok, err := (Authenticator{Console: c, Next: unknown}).Authenticate(r); ok && err == nil {
			c.ServeHTTP(w, r.WithContext(request.WithUser(r.Context(), u)))
		}
	}
	for _, path := range []string{Prefix, Prefix + "/", codesPath, sessionPath, whoPath, dataPrefix + "requests", dataPrefix + "history", Prefix + "/none"} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
			for _, header := range []string{"", codeHeader, "Cookie", "Authorization"} {
				r := httptest.NewRequest(method, path, strings.NewReader("{}"))
				if header != "" {
					r.Header.Set(header, cookieName+"=x")
				}
				c.Filter(served)(httptest.NewRecorder(), r)
				if len(c.codes.all)+len(c.sessions.all) != 0 {
					t.Fatalf("%s %s with %q leaves a code or session", method, path, header)
				}
			}
		}
	}
}
