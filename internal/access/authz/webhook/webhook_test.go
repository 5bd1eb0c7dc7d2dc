package webhook

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/wire/remote"
	"github.com/kanzen-io/kanzen/internal/wire/remote/remotetest"
)

// server is a webhook that responds with a status and records the reviews.
type server struct {
	status string
	code   int
	asked  []map[string]any
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in map[string]any
	_ = json.NewDecoder(r.Body).Decode(&in)
	s.asked = append(s.asked, in)
	if s.code != 0 {
		w.WriteHeader(s.code)
		return
	}
	_, _ = w.Write([]byte(`{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":` + s.status + `}`))
}

func newWebhook(t *testing.T, s *server, change func(*Config)) (*Authorizer, *clocktesting.FakeClock) {
	t.Helper()
	client, err := remote.FromKubeconfig(remotetest.Serve(t, s.ServeHTTP), time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	clk := clocktesting.NewFakeClock(time.Unix(0, 0))
	c := Config{Name: "w", Client: client, Version: "v1", AuthorizedTTL: time.Minute, UnauthorizedTTL: time.Second, OnError: authz.NoOpinion,
		Retry: remote.Retry{Attempts: 1, Clock: clk}, Clock: clk, Metrics: NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&c)
	}
	w, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return w, clk
}

var pods = &authz.Attributes{
	User:       &user.DefaultInfo{Name: "u", UID: "1", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}},
	IsResource: true, Verb: "list", Version: "v1", Resource: "pods", Namespace: "a",
	FieldSelector: "spec.nodeName=n1,status.phase!=Failed", LabelSelector: "a in (b,c),!d",
}

func TestDecisions(t *testing.T) {
	for _, c := range []struct {
		status string
		code   int
		policy authz.Decision
		want   authz.Decision
		reason string
		fails  bool
	}{
		{status: `{"allowed":true,"reason":"because"}`, want: authz.Allow, reason: "because"},
		{status: `{"allowed":false,"reason":"so"}`, want: authz.NoOpinion, reason: "so"},
		{status: `{"denied":true}`, want: authz.Deny},
		{status: `{"denied":true,"allowed":true}`, want: authz.Deny, fails: true},
		{code: 403, policy: authz.NoOpinion, want: authz.NoOpinion, fails: true},
		{code: 403, policy: authz.Deny, want: authz.Deny, fails: true},
		{status: `7`, policy: authz.Deny, want: authz.Deny, fails: true},
	} {
		s := &server{status: c.status, code: c.code}
		w, _ := newWebhook(t, s, func(cfg *Config) { cfg.OnError = c.policy })
		decision, reason, err := w.Authorize(t.Context(), pods)
		if decision != c.want || reason != c.reason || (err != nil) != c.fails {
			t.Errorf("%+v: %v %q %v", c, decision, reason, err)
		}
		if open := testutil.ToFloat64(w.Metrics.failOpen.WithLabelValues("w", "error")); (open == 1) != (c.code != 0 && c.policy == authz.NoOpinion) {
			t.Errorf("%+v: failed open %v times", c, open)
		}
	}
}

func TestWhatIsSent(t *testing.T) {
	for version, want := range map[string]string{
		"v1":      `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","metadata":{},"spec":{"extra":{"k":["v"]},"groups":["g"],"resourceAttributes":{"fieldSelector":{"requirements":[{"key":"spec.nodeName","operator":"In","values":["n1"]},{"key":"status.phase","operator":"NotIn","values":["Failed"]}]},"labelSelector":{"requirements":[{"key":"a","operator":"In","values":["b","c"]},{"key":"d","operator":"DoesNotExist"}]},"namespace":"a","resource":"pods","verb":"list","version":"v1"},"uid":"1","user":"u"},"status":{"allowed":false}}`,
		"v1beta1": `{"apiVersion":"authorization.k8s.io/v1beta1","kind":"SubjectAccessReview","metadata":{},"spec":{"extra":{"k":["v"]},"group":["g"],"resourceAttributes":{"fieldSelector":{"requirements":[{"key":"spec.nodeName","operator":"In","values":["n1"]},{"key":"status.phase","operator":"NotIn","values":["Failed"]}]},"labelSelector":{"requirements":[{"key":"a","operator":"In","values":["b","c"]},{"key":"d","operator":"DoesNotExist"}]},"namespace":"a","resource":"pods","verb":"list","version":"v1"},"uid":"1","user":"u"},"status":{"allowed":false}}`,
	} {
		s := &server{status: `{"allowed":true}`}
		w, _ := newWebhook(t, s, func(c *Config) { c.Version = version })
		if decision, _, err := w.Authorize(t.Context(), pods); decision != authz.Allow || err != nil {
			t.Fatal(decision, err)
		}
		if got, _ := json.Marshal(s.asked[0]); string(got) != want {
			t.Errorf("%s: sent\n%s, want\n%s", version, got, want)
		}
	}
}

func TestRemembering(t *testing.T) {
	s := &server{status: `{"allowed":true}`}
	w, clk := newWebhook(t, s, nil)
	ask := func(a *authz.Attributes, want int) {
		t.Helper()
		s.asked = nil
		_, _, _ = w.Authorize(t.Context(), a)
		if len(s.asked) != want {
			t.Errorf("asked %d times, want %d", len(s.asked), want)
		}
	}
	ask(pods, 1)
	ask(pods, 0)
	clk.Step(2 * time.Minute)
	s.status = `{"allowed":false}`
	ask(pods, 1)
	ask(pods, 0)
	clk.Step(2 * time.Second)
	ask(pods, 1)
	long := *pods
	long.Name = string(make([]byte, maxRemembered))
	ask(&long, 1)
	ask(&long, 1)
}

func TestMatcher(t *testing.T) {
	for _, c := range []struct {
		expressions []string
		matches     bool
		fails       bool
	}{
		{[]string{`request.user == "u" && "g" in request.groups && request.extra["k"][0] == "v" && request.uid == "1"`}, true, false},
		{[]string{`request.user == "x"`}, false, false},
		{[]string{`has(request.resourceAttributes) && request.resourceAttributes.subresource == ""`}, true, false},
		{[]string{`has(request.nonResourceAttributes)`}, false, false},
		{[]string{`request.nonResourceAttributes.path == "/"`}, false, true},
		{[]string{`request.nonResourceAttributes.path == "/"`, `false`}, false, false},
		{[]string{`request.resourceAttributes.?fieldSelector.requirements.orValue([]).exists(r, r.key == "spec.nodeName" && r.operator == "In" && r.values == ["n1"])`}, true, false},
		{[]string{`request.resourceAttributes.labelSelector.requirements.size() == 2`}, true, false},
	} {
		m, errs := NewMatcher(c.expressions, nil)
		if len(errs) > 0 {
			t.Errorf("%v: %v", c.expressions, errs)
			continue
		}
		got, err := m.Matches(t.Context(), specOf(pods))
		if got != c.matches || (err != nil) != c.fails {
			t.Errorf("%v: %v %v", c.expressions, got, err)
		}
	}
	for _, bad := range [][]string{{""}, {"1"}, {"request.nosuch"}, {"true", "true"}, make([]string, 65)} {
		if _, errs := NewMatcher(bad, field.NewPath("x")); len(errs) == 0 {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestConditionsExclude(t *testing.T) {
	s := &server{status: `{"denied":true}`}
	m, _ := NewMatcher([]string{`request.user != "u"`}, nil)
	w, _ := newWebhook(t, s, func(c *Config) { c.Match = m })
	if decision, _, err := w.Authorize(t.Context(), pods); decision != authz.NoOpinion || err != nil || len(s.asked) != 0 {
		t.Errorf("%v %v, asked %d times", decision, err, len(s.asked))
	}
	if n := testutil.ToFloat64(w.Metrics.exclusions.WithLabelValues("Webhook", "w")); n != 1 {
		t.Errorf("%v exclusions were counted", n)
	}
}
