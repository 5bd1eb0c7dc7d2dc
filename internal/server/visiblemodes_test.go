package server

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/process/config"
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

// TestVisibleToNodes has nodes whose pods come and go, and use secrets, configmaps and volumes, and compares lists and watches with
// reviews of single objects.
func TestVisibleToNodes(t *testing.T) {
	seed := uint64(9)
	if n, err := strconv.ParseUint(os.Getenv("VISIBLE_SEED"), 10, 64); err == nil {
		seed = n // to look for more
	}
	w := newVisibleWorld(t, start(t), seed)
	w.users = nil
	var caches []*visibleCache
	for n := range 3 {
		u := &user.DefaultInfo{Name: fmt.Sprint("system:node:nw", n), Groups: []string{"system:nodes", "system:authenticated"}}
		w.users = append(w.users, u)
		for m, resource := range []string{"configmaps", "secrets", "pods", "nodes"} {
			caches = append(caches, &visibleCache{w: w, u: u, resource: resource, initial: (n+m)%2 == 0, query: url.Values{"visible": {"true"}}})
		}
	}
	for _, c := range caches {
		c.run(t)
	}
	for ns := range w.teams {
		w.do("POST", "/api/v1/namespaces/"+ns+"/serviceaccounts", `{"metadata":{"name":"default"}}`, 201)
	}
	steps, listed := 250, 0
	if testing.Short() {
		steps = 50
	}
	for range steps {
		if w.r.IntN(2) == 0 {
			w.change()
		} else {
			w.changeNodes()
		}
		u, resource := w.users[w.r.IntN(len(w.users))], w.pick("configmaps", "secrets", "pods", "nodes")
		got := w.listed(u, "/api/v1/"+resource, url.Values{"visible": {"true"}})
		if err := w.s.base.objects.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := w.visible(u, "list", resource)
		for key := range got {
			if !strings.HasPrefix(key, "n") {
				delete(got, key)
			}
		}
		if !sameObjects(got, want) {
			t.Fatalf("step %d: %s sees %d of %s, and may see %d", w.step, u.GetName(), len(got), resource, len(want))
		}
		listed += len(got)
		for _, c := range caches {
			want := w.visible(c.u, "watch", c.resource)
			for key := range want {
				w.allowed[c.id()+" "+c.resource+" "+key] = w.step
			}
			c.expect(want)
		}
		if w.r.IntN(4) == 0 {
			caches[w.r.IntN(len(caches))].cut()
		}
	}
	resumed, again := 0, 0
	for _, c := range caches {
		r, a := c.counts()
		resumed, again = resumed+r, again+a
	}
	if t.Logf("%d objects were listed, watches resumed %d times, and %d times it was listed again", listed, resumed, again); listed < steps/4 || resumed == 0 || again == 0 {
		t.Error("too little happened")
	}
}

// visible are the objects for which single reviews allow a verb.
func (w *visibleWorld) visible(u user.Info, verb, resource string) map[string]any {
	out := w.everything(resource)
	for key := range out {
		if !w.may(u, verb, resource, key) {
			delete(out, key)
		}
	}
	return out
}

// changeNodes changes what belongs to nodes: a pod or a volume, or a node itself.
func (w *visibleWorld) changeNodes() {
	ns, name := w.namespace(), fmt.Sprint("p", w.r.IntN(3))
	w.step++
	switch path := "/api/v1/namespaces/" + ns + "/pods"; w.r.IntN(6) {
	case 0:
		w.remade("/api/v1/nodes", fmt.Sprint("nw", w.r.IntN(3)), "")
	case 1, 2:
		w.remade("/api/v1/persistentvolumes", name, fmt.Sprintf(`,"spec":{"capacity":{"storage":"1"},"accessModes":["ReadWriteOnce"],"claimRef":{"namespace":%q,"name":"c%d"},
			"csi":{"driver":"d","volumeHandle":"h","nodeStageSecretRef":{"namespace":%q,"name":"x%d"}}}`, ns, w.r.IntN(2), w.namespace(), w.r.IntN(4)))
	case 3: // A pod is bound by the scheduler.
		w.remade(path, name, w.podSpec(""))
		w.as(masters, "POST", path+"/"+name+"/binding", fmt.Sprintf(`{"metadata":{"name":%q},"target":{"kind":"Node","name":"nw%d"}}`, name, w.r.IntN(3)))
	default:
		w.remade(path, name, w.podSpec(fmt.Sprint("nw", w.r.IntN(3))))
	}
}

func (w *visibleWorld) podSpec(node string) string {
	return fmt.Sprintf(`,"spec":{"nodeName":%q,"containers":[{"name":"c","image":"i","envFrom":[{"configMapRef":{"name":"x%d"}}]}],"volumes":[
		{"name":"v","secret":{"secretName":"x%d"}},{"name":"w","persistentVolumeClaim":{"claimName":"c%d"}}]}`, node, w.r.IntN(4), w.r.IntN(4), w.r.IntN(2))
}

// remade removes an object and mostly makes it anew.
func (w *visibleWorld) remade(path, name, rest string) {
	w.do("DELETE", path+"/"+name+"?gracePeriodSeconds=0", "", 200, 404)
	if w.r.IntN(4) > 0 {
		if _, doc := w.as(masters, "POST", path, fmt.Sprintf(`{"metadata":{"name":%q}%s}`, name, rest)); doc["kind"] != "Status" {
			w.wrote(path[strings.LastIndexByte(path, '/')+1:], doc)
		}
	}
}
