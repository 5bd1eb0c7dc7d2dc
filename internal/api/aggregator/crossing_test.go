package aggregator_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// fault is a way in which an extension server is broken.
type fault struct {
	name string
	// handler serves its requests; nil: there is no server.
	handler http.Handler
	host    string // in its certificate; empty: the right one
	// service changes its service; nil: it stays.
	service func(t *testing.T, s *kanzentest.Server, e *extension)
	// reason is that of the condition; what is in the 503 of its requests.
	reason, says string
}

func faults() []fault {
	abort := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	status := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	late := http.NewServeMux() // breaks only after it was found to be well
	late.Handle("/apis/late.test/v1", things("late.test", "v1"))
	late.Handle("/", abort)
	replace := func(t *testing.T, s *kanzentest.Server, e *extension, spec corev1.ServiceSpec) {
		remove(t, s, "/api/v1/namespaces/default/services/"+e.name)
		made(t, s, "/api/v1/namespaces/default/services", &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: e.name}, Spec: spec})
	}
	return []fault{
		{name: "hang", handler: http.HandlerFunc(hang), reason: "FailedDiscoveryCheck", says: "context deadline exceeded"},
		{name: "crash", handler: abort, reason: "FailedDiscoveryCheck", says: "failing or missing response"},
		{name: "error", handler: status, reason: "FailedDiscoveryCheck", says: "bad status"},
		{name: "wrong", handler: things("wrong.test", "v1"), host: "other.default.svc", reason: "FailedDiscoveryCheck", says: "x509"},
		{name: "gone", reason: "FailedDiscoveryCheck", says: "connection refused"},
		{name: "late", handler: late, reason: "Passed", says: "error trying to reach service"},
		{name: "none", handler: abort, reason: "ServiceNotFound", says: "ServiceNotFound", service: func(t *testing.T, s *kanzentest.Server, e *extension) {
			remove(t, s, "/api/v1/namespaces/default/services/"+e.name)
		}},
		{name: "port", handler: abort, reason: "ServicePortError", says: "ServicePortError", service: func(t *testing.T, s *kanzentest.Server, e *extension) {
			replace(t, s, e, corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}})
		}},
		{name: "empty", handler: abort, reason: "EndpointsNotFound", says: "EndpointsNotFound", service: func(t *testing.T, s *kanzentest.Server, e *extension) {
			replace(t, s, e, corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: e.port}}})
		}},
	}
}

// secret is in every credential that the clients of the test send.
const secret = "c2VjcmV0"

// TestBrokenServersCrossed crosses ways in which an extension server is broken with routes, methods and the rights of users.
// For each: what this server serves is answered as before, discovery is whole, requests of the group get a 503 with the
// reason, or the refusal to who has no rights, and nothing that authenticates the client arrives at the extension server.
func TestBrokenServersCrossed(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t)
	const local = "/api/v1/namespaces/default"
	_, namespace := get(t, s, local)
	_, groups := get(t, s, "/apis")
	arrived := &credentials{}
	all := faults()
	for _, f := range all {
		hosts := []string{f.name + ".default.svc"}
		if f.host != "" {
			hosts = []string{f.host}
		}
		e := newExtension(t, s, f.name, arrived.watching(f.handler), hosts...)
		if f.handler == nil {
			e.server.Close()
		}
		if f.service != nil {
			f.service(t, s, e)
		}
		e.register(t, s, f.name+".test", "v1")
	}
	for _, f := range all {
		awaitCondition(t, s, "v1."+f.name+".test", f.reason)
		eventually(t, f.name+" is in force", func() bool {
			code, body := get(t, s, "/apis/"+f.name+".test/v1/things")
			return code == 503 && strings.Contains(body, f.says)
		})
	}
	users := rightsOf(t, s)
	for _, f := range all {
		for _, route := range []struct{ path, verb string }{
			{"/things", "list"}, {"/things?watch=1", "watch"}, {"/things/x", "get"}, {"/things/x/status", "get"},
			{"/namespaces/default/things", "list"}, {"/namespaces/default/things/x", "get"},
		} {
			for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
				for rights, u := range users {
					path := "/apis/" + f.name + ".test/v1" + route.path
					code, body := asUser(t, s, u, method, path)
					allowed := rights == "all" || rights == "read" && method == "GET"
					switch {
					case !allowed && code != http.StatusForbidden:
						t.Errorf("%s %s with the rights %s: %d %s", method, path, rights, code, body)
					case allowed && (code != http.StatusServiceUnavailable || !strings.Contains(body, f.says) || !strings.Contains(body, `"kind":"Status"`)):
						t.Errorf("%s %s with the rights %s: %d %s", method, path, rights, code, body)
					}
				}
			}
		}
		for rights, u := range users {
			if code, body := asUser(t, s, u, "GET", "/apis/"+f.name+".test"); code != 200 || !strings.Contains(body, `"groupVersion":"`+f.name+`.test/v1"`) {
				t.Errorf("the group %s, rights %s: %d %s", f.name, rights, code, body)
			}
		}
		if got := aggregated(t, s, f.name+".test"); len(got) != 1 || (f.reason != "Passed" && got[0] != "v1 Stale ") {
			t.Errorf("%s: %q", f.name, got)
		}
		if code, body := asUser(t, s, users["all"], "GET", local); code != 200 || body != namespace {
			t.Errorf("%s: a local request: %d %s", f.name, code, body)
		}
	}
	_, now := get(t, s, "/apis")
	for _, name := range groupsIn(groups) {
		if !slices.Contains(groupsIn(now), name) {
			t.Errorf("discovery has lost %s", name)
		}
	}
	if found := arrived.all(); len(found) > 0 {
		t.Errorf("credentials arrived: %q", found)
	}
	if !arrived.asked() {
		t.Error("no request arrived at any extension server")
	}
}

// rightsOf makes users, by what they may do with things.
func rightsOf(t *testing.T, s *kanzentest.Server) map[string]*user.DefaultInfo {
	t.Helper()
	made(t, s, "/apis/rbac.authorization.k8s.io/v1/clusterroles", &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reads-things"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"things", "things/status"}, Verbs: []string{"get", "list", "watch"}}}})
	made(t, s, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "reads-things"},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reads-things"}, Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "reader"}}})
	users := map[string]*user.DefaultInfo{
		"all": {Name: "root", Groups: []string{"system:masters", "system:authenticated"}}, "read": {Name: "reader", Groups: []string{"system:authenticated"}},
		"none": {Name: "nobody", Groups: []string{"system:authenticated"}},
	}
	eventually(t, "the role is in force", func() bool {
		code, _ := asUser(t, s, users["read"], "GET", "/apis/hang.test/v1/things")
		return code == http.StatusServiceUnavailable
	})
	return users
}

// asUser sends a request with credentials of all kinds.
func asUser(t *testing.T, s *kanzentest.Server, u *user.DefaultInfo, method, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://kanzen"+path, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + secret}, "Proxy-Authorization": {"Basic " + secret},
		"X-Remote-User": {secret}, "X-Remote-Extra-Token": {secret}}
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := s.Transport(u).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func groupsIn(document string) []string {
	var names []string
	for _, part := range strings.Split(document, `"name":"`)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		names = append(names, name)
	}
	return names
}

// credentials are what arrived at extension servers and must not.
type credentials struct {
	mu       sync.Mutex
	requests int
	found    []string
}

func (c *credentials) watching(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.requests++
		for name, values := range r.Header {
			if strings.Contains(strings.Join(values, " "), secret) {
				c.found = append(c.found, fmt.Sprint(r.Method, " ", r.URL, ": ", name))
			}
		}
		c.mu.Unlock()
		next.ServeHTTP(w, r)
	})
}

func (c *credentials) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.found
}

func (c *credentials) asked() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests > 0
}
