package chain

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/access/authn/serviceaccount"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/request/extensions"
)

func TestImpersonation(t *testing.T) {
	const authentication = "authentication.k8s.io"
	agent := &user.DefaultInfo{Name: "system:serviceaccount:a:agent", Extra: map[string][]string{serviceaccount.NodeNameKey: {"n1"}}}
	admin := &user.DefaultInfo{Name: "admin"}
	for _, c := range []struct {
		name    string
		who     *user.DefaultInfo
		allowed []string
		headers []string
		legacy  bool // without the constrained modes
		want    string
		reason  metav1.StatusReason
		message string
	}{
		{name: "nothing asked", who: admin, want: "admin//[]"},
		{name: "legacy", who: admin, allowed: []string{"impersonate users bob"}, headers: []string{"Impersonate-User: bob"}, want: "bob//[system:authenticated]"},
		{name: "legacy alone", who: admin, allowed: []string{"impersonate users bob"}, headers: []string{"Impersonate-User: bob"}, legacy: true, want: "bob//[system:authenticated]"},
		{name: "everything", who: admin, allowed: []string{"impersonate .*"},
			headers: []string{"Impersonate-User: bob", "Impersonate-Uid: 1", "Impersonate-Group: g", "Impersonate-Group: system:masters", "Impersonate-Extra-Acme.com%2fp: v", "Impersonate-Extra-Acme.com%2fp: w"},
			want:    "bob/1/[g system:masters system:authenticated]acme.com/p=v,w"},
		{name: "a service account", who: admin, allowed: []string{"impersonate serviceaccounts a/x"}, headers: []string{"Impersonate-User: system:serviceaccount:a:x"}, want: "system:serviceaccount:a:x//[system:serviceaccounts system:serviceaccounts:a system:authenticated]"},
		{name: "a service account of given groups", who: admin, allowed: []string{"impersonate .*"}, headers: []string{"Impersonate-User: system:serviceaccount:a:x", "Impersonate-Group: g"}, want: "system:serviceaccount:a:x//[g system:authenticated]"},
		{name: "anonymous", who: admin, allowed: []string{"impersonate .*"}, headers: []string{"Impersonate-User: system:anonymous"}, want: "system:anonymous//[system:unauthenticated]"},
		{name: "unauthenticated", who: admin, allowed: []string{"impersonate .*"}, headers: []string{"Impersonate-User: x", "Impersonate-Group: system:unauthenticated"}, want: "x//[system:unauthenticated]"},

		{name: "groups without a user", who: admin, headers: []string{"Impersonate-Group: g"}, reason: metav1.StatusReasonBadRequest},
		{name: "extra without a user", who: admin, headers: []string{"Impersonate-Extra-X: y"}, reason: metav1.StatusReasonBadRequest},
		{name: "refused", who: admin, headers: []string{"Impersonate-User: bob"}, reason: metav1.StatusReasonForbidden,
			message: `pods is forbidden: User "admin" cannot impersonate-on:user-info:list resource "pods" in API group "" in the namespace "a"`},
		{name: "refused, legacy alone", who: admin, headers: []string{"Impersonate-User: bob"}, legacy: true, reason: metav1.StatusReasonForbidden,
			message: `users "bob" is forbidden: User "admin" cannot impersonate resource "users" in API group "" at the cluster scope`},
		{name: "uid and group refused, legacy alone", who: admin, allowed: []string{"impersonate users bob"}, headers: []string{"Impersonate-User: bob", "Impersonate-Group: g", "Impersonate-Uid: 1"}, legacy: true, reason: metav1.StatusReasonForbidden,
			message: `groups "g" is forbidden: User "admin" cannot impersonate resource "groups" in API group "" at the cluster scope`},
		{name: "constrained, legacy alone", who: admin, allowed: []string{"impersonate-on:.*", "impersonate:.*"}, headers: []string{"Impersonate-User: bob"}, legacy: true, reason: metav1.StatusReasonForbidden},
		{name: "no user, legacy alone", who: admin, headers: []string{"Impersonate-Group: g", "Impersonate-Extra-X: y", "Impersonate-Uid: 1"}, legacy: true, reason: metav1.StatusReasonBadRequest,
			message: "requested [{Group  g    } {UserExtra  y  authentication.k8s.io/v1  x} {UID  1  authentication.k8s.io/v1  }] without impersonating a user"},
		{name: "one group refused", who: admin, allowed: []string{"impersonate users bob", "impersonate groups g"}, headers: []string{"Impersonate-User: bob", "Impersonate-Group: g", "Impersonate-Group: h"}, reason: metav1.StatusReasonForbidden},
		{name: "uid refused", who: admin, allowed: []string{"impersonate users bob"}, headers: []string{"Impersonate-User: bob", "Impersonate-Uid: 1"}, reason: metav1.StatusReasonForbidden},
		{name: "extra refused", who: admin, allowed: []string{"impersonate users bob", "impersonate userextras." + authentication + "/x a"}, headers: []string{"Impersonate-User: bob", "Impersonate-Extra-X: b"}, reason: metav1.StatusReasonForbidden},

		{name: "constrained user", who: admin, allowed: []string{"impersonate-on:user-info:list pods a/", "impersonate:user-info users." + authentication + " bob"}, headers: []string{"Impersonate-User: bob"}, want: "bob//[system:authenticated]"},
		{name: "constrained user, another verb", who: admin, allowed: []string{"impersonate-on:user-info:get pods a", "impersonate:user-info .*"}, headers: []string{"Impersonate-User: bob"}, reason: metav1.StatusReasonForbidden},
		{name: "constrained masters", who: admin, allowed: []string{"impersonate-on:.*", "impersonate:.*"}, headers: []string{"Impersonate-User: bob", "Impersonate-Group: system:masters"}, reason: metav1.StatusReasonForbidden},
		{name: "constrained with many groups", who: admin, allowed: []string{"impersonate-on:.*", "impersonate:user-info users.*", `impersonate:user-info groups.* \*`},
			headers: []string{"Impersonate-User: bob", "Impersonate-Group: a", "Impersonate-Group: b", "Impersonate-Group: c", "Impersonate-Group: d"}, want: "bob//[a b c d system:authenticated]"},
		{name: "constrained extra that is no path", who: admin, allowed: []string{"impersonate-on:.*", "impersonate:.*"}, headers: []string{"Impersonate-User: bob", "Impersonate-Extra-X: y"}, reason: metav1.StatusReasonForbidden},
		{name: "constrained service account", who: admin, allowed: []string{"impersonate-on:serviceaccount:list pods a/", "impersonate:serviceaccount serviceaccounts." + authentication + " a/x"},
			headers: []string{"Impersonate-User: system:serviceaccount:a:x"}, want: "system:serviceaccount:a:x//[system:serviceaccounts system:serviceaccounts:a system:authenticated]"},
		{name: "constrained node", who: admin, allowed: []string{"impersonate-on:arbitrary-node:list pods a/", "impersonate:arbitrary-node nodes." + authentication + " n1"}, headers: []string{"Impersonate-User: system:node:n1"}, want: "system:node:n1//[system:nodes system:authenticated]"},
		{name: "one's own node", who: agent, allowed: []string{"impersonate-on:associated-node:list pods a/", "impersonate:associated-node nodes." + authentication + ` \*`}, headers: []string{"Impersonate-User: system:node:n1"}, want: "system:node:n1//[system:nodes system:authenticated]"},
		{name: "another's node", who: agent, allowed: []string{"impersonate-on:associated-node:.*", "impersonate:associated-node .*"}, headers: []string{"Impersonate-User: system:node:n2"}, reason: metav1.StatusReasonForbidden},
	} {
		t.Run(c.name, func(t *testing.T) {
			var passed *http.Request
			h := Impersonation(policy{c.who.Name: c.allowed}, !c.legacy, clock.RealClock{}, nil, WriteStatus).Then(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { passed = r }))
			as := Info(longProfiles, false, extensions.Set{}).Then(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				h.ServeHTTP(w, r.WithContext(request.WithUser(r.Context(), c.who)))
			}))
			w := send(as, "GET /api/v1/namespaces/a/pods", c.headers...)
			if c.reason != "" {
				if got := reason(t, w); passed != nil || got != c.reason || !strings.Contains(w.Body.String(), strings.ReplaceAll(c.message, `"`, `\"`)) {
					t.Errorf("%s %s", got, w.Body)
				}
				return
			}
			if passed == nil {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			u := request.UserFrom(passed.Context())
			got := u.GetName() + "/" + u.GetUID() + "/[" + strings.Join(u.GetGroups(), " ") + "]"
			if v := u.GetExtra()["acme.com/p"]; v != nil {
				got += "acme.com/p=" + strings.Join(v, ",")
			}
			if got != c.want || len(passed.Header) > 0 {
				t.Errorf("got %s, want %s; passed on %v", got, c.want, passed.Header)
			}
		})
	}
}

func FuzzImpersonation(f *testing.F) {
	f.Add("Impersonate-User", "a", "Impersonate-Extra-X%2f", "b")
	f.Add("impersonate-group", "g", "Impersonate-Uid", "")
	f.Add("Impersonate-User", "system:serviceaccount:a:b", "Impersonate-Extra-", "%zz")
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2 string) {
		h := http.Header{}
		h.Add(name1, value1)
		h.Add(name2, value2)
		u, err := impersonated(h, true)
		if err != nil || u == nil {
			return
		}
		for name := range h {
			if strings.HasPrefix(name, "Impersonate-") && slices.Contains([]string{"User", "Uid", "Group"}, strings.TrimPrefix(name, "Impersonate-")) {
				t.Errorf("%q went on", name)
			}
		}
		// Whoever may do nothing may be nobody.
		r := httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil)
		r.Header.Add(name1, value1)
		r.Header.Add(name2, value2)
		ctx := request.WithUser(r.Context(), &user.DefaultInfo{Name: "eve"})
		i, err := request.NewInfo(r)
		if err != nil {
			t.Fatal(err)
		}
		before := *u
		Impersonation(policy{}, true, clock.RealClock{}, nil, WriteStatus).Then(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			t.Errorf("let through as %v", u)
		})).ServeHTTP(httptest.NewRecorder(), r.WithContext(request.WithInfo(ctx, i)))
		if !reflect.DeepEqual(before, *u) {
			t.Error("changed by the check")
		}
	})
}

// observed notes what an observer is told.
type observed struct{ attempts, questions []string }

func note(mode string, allowed bool) string {
	if allowed {
		return mode + " allowed"
	}
	return mode + " denied"
}

func (o *observed) ImpersonationAttempted(mode string, allowed bool, _ time.Duration) {
	o.attempts = append(o.attempts, note(mode, allowed))
}

func (o *observed) ImpersonationAuthorized(mode string, allowed bool, _ time.Duration) {
	o.questions = append(o.questions, note(mode, allowed))
}

// What a constrained mode allows is remembered for ten seconds, by mode, asker,
// user and, for one of its two questions, request.
func TestImpersonationIsRemembered(t *testing.T) {
	agent := func(node string) *user.DefaultInfo {
		return &user.DefaultInfo{Name: "system:serviceaccount:a:agent", Extra: map[string][]string{serviceaccount.NodeNameKey: {node}}}
	}
	admin := &user.DefaultInfo{Name: "admin"}
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	rules := policy{"admin": {"impersonate-on:user-info:.*", "impersonate:user-info .*"}, "system:serviceaccount:a:agent": {"impersonate-on:associated-node:.*", "impersonate:associated-node .*"}}
	o := &observed{}
	var as string
	h := Impersonation(rules, true, clk, o, WriteStatus).Then(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { as = request.UserFrom(r.Context()).GetName() }))
	for _, step := range []struct {
		who       *user.DefaultInfo
		as, path  string
		after     time.Duration
		questions int
	}{
		{admin, "bob", "/api/v1/namespaces/a/pods", 0, 2},
		{admin, "bob", "/api/v1/namespaces/a/pods", 9 * time.Second, 0},
		{admin, "bob", "/api/v1/namespaces/b/pods", 0, 1},
		{admin, "eve", "/api/v1/namespaces/a/pods", 0, 2},
		{&user.DefaultInfo{Name: "admin", Groups: []string{"g"}}, "bob", "/api/v1/namespaces/a/pods", 0, 2},
		{admin, "bob", "/api/v1/namespaces/a/pods", 2 * time.Second, 2},
		{agent("n1"), "system:node:n1", "/api/v1/pods", 0, 2},
		{agent("n2"), "system:node:n2", "/api/v1/pods", 0, 0},
	} {
		clk.SetTime(clk.Now().Add(step.after))
		o.questions, as = nil, ""
		outer := Info(longProfiles, false, extensions.Set{}).Then(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(w, r.WithContext(request.WithUser(r.Context(), step.who)))
		}))
		send(outer, "GET "+step.path, "Impersonate-User: "+step.as)
		if as != step.as || len(o.questions) != step.questions {
			t.Errorf("%+v: as %q, asked %v", step, as, o.questions)
		}
	}
	if len(o.attempts) != 8 || o.attempts[0] != "user-info allowed" || o.attempts[7] != "associated-node allowed" {
		t.Error(o.attempts)
	}
}
