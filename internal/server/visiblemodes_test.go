package server

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/config"
)

// This file compares what is visible by other authorizers than RBAC with single access reviews, of random rights and objects.

// agrees makes a random list as a user, and compares it with reviews of every object. It returns how many objects it has.
func (w *visibleWorld) agrees(u user.Info, resource string) int {
	w.t.Helper()
	path, query, about := w.question(resource)
	asked := query.Encode()
	got := w.listed(u, path, query)
	listed := len(got)
	for key, o := range w.everything(resource) {
		if _, has := got[key]; has != (about(key, o) && w.lists(u, path, resource, key)) {
			w.t.Fatalf("step %d: %s?%s has %s for %s: %v", w.step, path, asked, key, u.GetName(), has)
		}
		delete(got, key)
	}
	for key := range got {
		if strings.HasPrefix(key, "n") {
			w.t.Fatalf("step %d: %s?%s has %s", w.step, path, asked, key)
		}
	}
	return listed
}

// lists asks whether a user may list an object: by itself, with those of its namespace, or with all of a path. By RBAC the last two are as many
// single rights; others may allow a list and deny an object of it, which is listed all the same.
func (w *visibleWorld) lists(u user.Info, path, resource, key string) bool {
	ns, _, namespaced := strings.Cut(key, "/")
	return w.may(u, "list", resource, key) || namespaced && w.review(u, "list", resource, ns, "") ||
		!strings.HasPrefix(path, "/api/v1/namespaces/") && w.review(u, "list", resource, "", "")
}

// run changes objects, and what more changes, and compares lists of all users after each.
func (w *visibleWorld) run(steps int, change func()) {
	w.t.Helper()
	listed := 0
	for range steps {
		w.change()
		change()
		if err := w.s.base.objects.CatchUp(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
		listed += w.agrees(w.users[w.r.IntN(len(w.users))], w.pick("configmaps", "secrets", "namespaces"))
	}
	if listed < steps/4 {
		w.t.Errorf("only %d objects were visible", listed)
	}
}

// reviewer answers access reviews as a webhook, by random rules.
type reviewer struct {
	mu      sync.Mutex
	allowed map[string]bool // "user resource namespace", the last of which may be *
	denied  map[string]bool
	asked   int
}

func (a *reviewer) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	var review authorizationv1.SubjectAccessReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
	if at := review.Spec.ResourceAttributes; at != nil {
		for _, ns := range []string{at.Namespace, "*"} {
			rule := strings.Join([]string{review.Spec.User, at.Resource, ns}, " ")
			review.Status.Allowed = review.Status.Allowed || a.allowed[rule]
			review.Status.Denied = review.Status.Denied || a.denied[rule]
		}
	}
	review.Status.Allowed = review.Status.Allowed && !review.Status.Denied
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(&review)
}

// TestVisibleByWebhook has a webhook beside RBAC: one that allows more, and one in front of it that denies some.
func TestVisibleByWebhook(t *testing.T) {
	steps := 120
	if testing.Short() {
		steps = 24
	}
	for _, modes := range [][]string{{"RBAC", "Webhook"}, {"Webhook", "RBAC"}} {
		t.Run(strings.Join(modes, ","), func(t *testing.T) {
			a := &reviewer{allowed: map[string]bool{}, denied: map[string]bool{}}
			hook := httptest.NewServer(a)
			t.Cleanup(hook.Close)
			file := filepath.Join(t.TempDir(), "webhook")
			if err := os.WriteFile(file, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
				"clusters":[{"name":"c","cluster":{"server":%q}}],"users":[{"name":"u","user":{}}]}`, hook.URL), 0o600); err != nil {
				t.Fatal(err)
			}
			s := startWith(t, func(c *config.Config) {
				c.AuthorizationModes, c.AuthorizationWebhookFile, c.AuthorizationWebhookVersion = modes, file, "v1"
				c.AuthorizationWebhookAuthorizedTTL, c.AuthorizationWebhookUnauthorizedTTL = 0, 0
			})
			w := newVisibleWorld(t, s, 3)
			w.run(steps, func() {
				a.mu.Lock()
				defer a.mu.Unlock()
				rules := a.allowed
				if w.r.IntN(4) == 0 {
					rules = a.denied
				}
				if len(rules) > 20 {
					clear(rules)
				}
				rules[strings.Join([]string{w.users[w.r.IntN(len(w.users))].GetName(), w.pick("configmaps", "secrets", "namespaces"), w.pick(w.namespace(), w.namespace(), "*")}, " ")] = true
			})
			if a.asked == 0 {
				t.Error("the webhook was not asked")
			}
		})
	}
}

// TestVisibleByPolicies has files of random ABAC policies.
func TestVisibleByPolicies(t *testing.T) {
	steps := 60
	if testing.Short() {
		steps = 12
	}
	for seed := range uint64(4) {
		r := &visibleWorld{r: rand.New(rand.NewPCG(seed, 1))}
		file := filepath.Join(t.TempDir(), "policies")
		text := `{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"admin","namespace":"*","resource":"*","apiGroup":"*","nonResourcePath":"*"}}` + "\n"
		for range 25 {
			spec := map[string]any{r.pick("user", "group"): r.pick("u0", "u1", "u2", "u3", "g0", "g1"), "resource": r.pick("configmaps", "secrets", "namespaces", "*"),
				"apiGroup": r.pick("", "", "*", "apps"), "readonly": r.r.IntN(2) == 0}
			if r.r.IntN(5) > 0 {
				spec["namespace"] = r.pick(r.namespace(), r.namespace(), r.namespace(), r.namespace(), r.namespace(), r.namespace(), "*")
			}
			line, _ := json.Marshal(map[string]any{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": spec})
			text += string(line) + "\n"
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s := startWith(t, func(c *config.Config) {
			c.AuthorizationModes, c.AuthorizationPolicyFile = []string{"ABAC", "RBAC"}, file
		})
		newVisibleWorld(t, s, seed).run(steps, func() {})
	}
}

// TestVisibleToNodes has nodes whose pods come and go, and use secrets and configmaps.
func TestVisibleToNodes(t *testing.T) {
	s := start(t)
	w := newVisibleWorld(t, s, 9)
	w.users = nil
	for n := range 3 {
		w.users = append(w.users, &user.DefaultInfo{Name: fmt.Sprint("system:node:w", n), Groups: []string{"system:nodes", "system:authenticated"}})
	}
	for ns := range w.teams {
		w.do("POST", "/api/v1/namespaces/"+ns+"/serviceaccounts", `{"metadata":{"name":"default"}}`, 201)
	}
	steps, listed := 150, 0
	if testing.Short() {
		steps = 30
	}
	for range steps {
		w.change()
		ns, name := w.namespace(), fmt.Sprint("p", w.r.IntN(3))
		path := "/api/v1/namespaces/" + ns + "/pods"
		w.do("DELETE", path+"/"+name+"?gracePeriodSeconds=0", "", 200, 404)
		if w.r.IntN(4) > 0 {
			w.do("POST", path, fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"nodeName":"w%d","containers":[{"name":"c","image":"i","envFrom":[{"configMapRef":{"name":"x%d"}}]}],
				"volumes":[{"name":"v","secret":{"secretName":"x%d"}}]}}`, name, w.r.IntN(3), w.r.IntN(4), w.r.IntN(4)), 201)
		}
		u, resource := w.users[w.r.IntN(len(w.users))], w.pick("configmaps", "secrets", "pods")
		// What belongs to a node is known a moment after the pod is written; single reviews tell when.
		for began := time.Now(); ; time.Sleep(time.Millisecond) {
			got, want := w.listed(u, "/api/v1/"+resource, map[string][]string{"visible": {"true"}}), map[string]any{}
			for key, o := range w.everything(resource) {
				if w.lists(u, "/api/v1/"+resource, resource, key) {
					want[key] = o
				}
			}
			for key := range got {
				if !strings.HasPrefix(key, "n") {
					delete(got, key)
				}
			}
			if sameObjects(got, want) {
				listed += len(got)
				break
			}
			if time.Since(began) > 10*time.Second {
				t.Fatalf("step %d: %s sees %d of %s, and may see %d", w.step, u.GetName(), len(got), resource, len(want))
			}
		}
	}
	if listed < steps/2 {
		t.Errorf("only %d objects were visible", listed)
	}
}
