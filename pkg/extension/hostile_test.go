package extension_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/pkg/extension"
)

const group = "/apis/example.com/v1"

// asked is what one request is answered, and how long it took.
type asked struct {
	code int
	body []byte
	took time.Duration
}

// ask sends a request as a user; "" is the administrator.
func ask(t *testing.T, c *http.Client, base, user, method, path, contentType, body string, header ...string) asked {
	t.Helper()
	patience := time.Minute
	if strings.Contains(path, "/watch/") {
		patience = time.Second // it lasts as long as its client likes
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		req.Header.Set("Impersonate-User", user)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	for n := 0; n+1 < len(header); n += 2 {
		req.Header.Add(header[n], header[n+1])
	}
	began := time.Now()
	resp, err := c.Do(req)
	if err != nil {
		return asked{took: time.Since(began)} // the connection was closed, which is an answer
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 8<<20)) // a watch ends with its context
	return asked{resp.StatusCode, text, time.Since(began)}
}

// hostileRoutes are paths of the server, of others, and such as could be read in two ways.
func hostileRoutes() []string {
	var out []string
	for _, root := range []string{group, "/apis/example.com/v2", "/apis/other.example.com/v1", "/api/v1", "/apis//v1", "/apis/example.com//", "//apis/example.com/v1"} {
		for _, scope := range []string{"", "/namespaces/default", "/namespaces/other", "/namespaces//", "/namespaces", "/watch", "/watch/namespaces/default", "/proxy"} {
			for _, resource := range []string{"/things", "/things/a", "/things/a/status", "/things/a/scale", "/things/a/status/x", "/things/a/finalize", "/things//status", "/things/", "/secrets", "/secrets/a", "/Things", "/th"} {
				out = append(out, root+scope+resource)
			}
		}
	}
	return append(out, "/", "/api", "/apis", "/apis/example.com", group, "/openapi/v2", "/openapi/v3", "/openapi/v3"+group, "/metrics", "/metrics/slis", "/version", "/healthz", "/livez", "/livez/etcd", "/readyz",
		"/livez/../metrics", "/livez/..%2fmetrics", "//metrics", "/%6detrics", "/livez;/metrics", "/debug/pprof/", "/logs/", "/configz", "/flagz", "/statusz", "/console/", "/.well-known/openid-configuration")
}

func hostileServer(t *testing.T) (c *rest.Config, host *rest.Config, client *http.Client) {
	t.Helper()
	host = hostCluster(t)
	c = start(t, extension.Kind[Thing]{}, func(o *extension.Options) { o.Host, o.Log = host, slog.New(slog.DiscardHandler) })
	client, err := rest.HTTPClientFor(c)
	must(t, err)
	t.Cleanup(client.CloseIdleConnections)
	return c, host, client
}

// TestHostileRights asks for every route by every method, with several bodies, as users of whom each has one right: what is
// served is what the right is for.
func TestHostileRights(t *testing.T) {
	t.Parallel()
	c, config, client := hostileServer(t)
	rights := map[string]rbacv1.PolicyRule{"nobody": {}, "system:anonymous": {}}
	for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"} {
		for _, resource := range []string{"things", "things/status"} {
			rights["only-"+verb+"-"+strings.ReplaceAll(resource, "/", "-")] = rbacv1.PolicyRule{APIGroups: []string{"example.com"}, Resources: []string{resource}, Verbs: []string{verb}}
		}
	}
	rights["only-metrics"] = rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}
	rights["everything-elsewhere"] = rbacv1.PolicyRule{APIGroups: []string{"", "other.example.com"}, Resources: []string{"*"}, Verbs: []string{"*"}}
	rbac := kubernetes.NewForConfigOrDie(config).RbacV1()
	for name, rule := range rights {
		if len(rule.Verbs) == 0 {
			continue
		}
		_, err := rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{rule}}, metav1.CreateOptions{})
		must(t, err)
		_, err = rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: name}}}, metav1.CreateOptions{})
		must(t, err)
	}
	bodies := map[string][]string{"GET": {""}, "HEAD": {""}, "DELETE": {"", `{"kind":"DeleteOptions","apiVersion":"v1"}`}, "POST": {`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"}}`, ""},
		"PUT": {`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","namespace":"default"}}`}, "PATCH": {`{"spec":{"size":2}}`}, "OPTIONS": {""}, "FOO": {""}}
	served, r := 0, rand.New(rand.NewPCG(1, 7))
	one := func(all []string) string { return all[r.IntN(len(all))] }
	queries, methods, base := []string{"", "", "?watch=1&timeoutSeconds=1&resourceVersion=1", "?fieldSelector=metadata.name%3Da"}, slices.Sorted(maps.Keys(bodies)), "https://"+strings.TrimPrefix(c.Host, "https://")
	own := []string{group + "/namespaces/default/things", group + "/namespaces/default/things/a", group + "/namespaces/default/things/a/status", group + "/things"}
	for _, user := range slices.Sorted(maps.Keys(rights)) {
		rule := rights[user]
		for n := range 200 {
			path, method, query := one(hostileRoutes()), one(methods), one(queries)
			if n%2 == 0 {
				path = one(own)
			}
			body := one(bodies[method])
			contentType := map[string]string{"PATCH": "application/merge-patch+json"}[method]
			if contentType == "" && body != "" {
				contentType = "application/json"
			}
			a := ask(t, client, base, user, method, path+query, contentType, body)
			granted := permits(t, rule, method, path+query)
			if a.code != 0 && a.code < 400 && !granted && !open(path) {
				t.Errorf("%s: %s %s%s answers %d: %.300s", user, method, path, query, a.code, a.body)
			}
			if granted && (a.code == 401 || a.code == 403) {
				t.Errorf("%s may: %s %s%s answers %d: %.300s", user, method, path, query, a.code, a.body)
			}
			if a.code >= 500 {
				t.Errorf("%s: %s %s%s answers %d: %.300s", user, method, path, query, a.code, a.body)
			}
			if granted && a.code < 300 && a.code != 0 {
				served++
			}
		}
	}
	if served < 20 {
		t.Errorf("only %d requests were served", served)
	}
}

// open says that everybody gets a path: health, and what the discovery role of the host lets all users read.
func open(path string) bool {
	return slices.ContainsFunc([]string{"/healthz", "/livez", "/readyz", "/version", "/openapi", "/api"}, func(p string) bool {
		return path == p || path == p+"s" || strings.HasPrefix(path, p+"/v") || path == p+"/etcd"
	}) && !strings.Contains(path, "..") && !strings.Contains(path, "/api/v1/") || slices.Contains([]string{"/apis/example.com", group}, path)
}

// permits says whether a rule is for a request.
func permits(t *testing.T, rule rbacv1.PolicyRule, method, target string) bool {
	t.Helper()
	i, err := request.NewInfo(httptest.NewRequest(method, target, nil))
	if err != nil {
		return false
	}
	if !i.IsResource {
		return slices.Contains(rule.NonResourceURLs, i.Path) && slices.Contains(rule.Verbs, i.Verb)
	}
	resource := i.Resource
	if i.Subresource != "" {
		resource += "/" + i.Subresource
	}
	has := func(all []string, one string) bool { return slices.Contains(all, one) || slices.Contains(all, "*") }
	return has(rule.APIGroups, i.Group) && has(rule.Resources, resource) && has(rule.Verbs, i.Verb)
}

// TestHostileCredentials sends headers by which somebody unknown could pass as another user.
func TestHostileCredentials(t *testing.T) {
	t.Parallel()
	c, _, _ := hostileServer(t)
	stranger := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer stranger.CloseIdleConnections()
	base := "https://" + strings.TrimPrefix(c.Host, "https://")
	for _, header := range [][]string{{}, {"X-Remote-User", "admin", "X-Remote-Group", "system:masters"}, {"X_Remote_User", "admin", "X_Remote_Group", "system:masters"}, {"x-remote-user", "system:admin", "x-remote-group", "system:masters", "X-Remote-Extra-A", "b"},
		{"Impersonate-User", "admin", "Impersonate-Group", "system:masters"}, {"Impersonate-Group", "system:masters"}, {"Authorization", "Bearer x"}, {"Authorization", "Basic YWRtaW46YWRtaW4="}, {"Authorization", "bearer  "}, {"Authorization", "Bearer " + strings.Repeat("x", 100_000)},
		{"X-Forwarded-For", "127.0.0.1"}, {"Connection", "X-Remote-User", "X-Remote-User", "admin"}, {"Sec-WebSocket-Protocol", "base64url.bearer.authorization.k8s.io.eA", "Upgrade", "websocket", "Connection", "Upgrade"}, {"Cookie", "__Secure-kanzen-console=x"}} {
		for _, path := range []string{group + "/things", group + "/namespaces/default/things/a", "/metrics", group + "/things?watch=1&timeoutSeconds=1", "/openapi/v2"} {
			for _, method := range []string{"GET", "POST", "DELETE"} {
				if a := ask(t, stranger, base, "", method, path, "application/json", "{}", header...); a.code != 401 && a.code != 403 && a.code != 0 && a.code != 431 && a.code != 400 {
					t.Errorf("%q: %s %s answers %d: %.200s", header, method, path, a.code, a.body)
				}
			}
		}
	}
}

// TestHostileBodies sends what is made to cost much: each is answered soon, within a bound of memory, and others are served.
func TestHostileBodies(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures memory, of which the race detector takes its own")
	}
	// Not beside other tests: what the process allocates is counted.
	c, _, client := hostileServer(t)
	base := "https://" + strings.TrimPrefix(c.Host, "https://")
	const all = group + "/namespaces/default/things"
	object := func(spec string) string {
		return `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"spec":` + spec + `}`
	}
	if a := ask(t, client, base, "", "POST", all, "application/json", object(`{"labels":["x"]}`)); a.code != 201 {
		t.Fatalf("%d %s", a.code, a.body)
	}
	aliases := "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: b}\na0: &a0 [x,x,x,x,x,x,x,x,x]\n"
	for n := range 9 {
		aliases += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", n+1, n+1, strings.Repeat(fmt.Sprintf("*a%d,", n), 8), n)
	}
	many := func(head, one, tail string, n int) string { return head + strings.Repeat(one, n) + tail }
	for name, q := range map[string]struct{ method, path, contentType, body string }{
		"too large":         {"POST", all, "application/json", object(`{"color":"` + strings.Repeat("x", 4<<20) + `"}`)},
		"deep":              {"POST", all, "application/json", object(many("", `{"a":`, "1"+strings.Repeat("}", 200_000), 200_000))},
		"deep lists":        {"POST", all, "application/json", object(many("", "[", strings.Repeat("]", 500_000), 500_000))},
		"aliases":           {"POST", all, "application/yaml", aliases},
		"keys":              {"POST", all, "application/json", object(many(`{"z":1`, `,"a":1`, "}", 400_000))},
		"items":             {"POST", all, "application/json", object(many(`{"labels":["x"`, `,"y"`, "]}", 600_000))},
		"annotations":       {"POST", all, "application/json", `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"c","annotations":{"a":"` + strings.Repeat("x", 2<<20) + `"}}}`},
		"owners":            {"POST", all, "application/json", many(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"c","ownerReferences":[{}`, ",{}", "]}}", 20_000)},
		"managed fields":    {"PATCH", all + "/a", "application/merge-patch+json", many(`{"metadata":{"managedFields":[{"manager":"m","operation":"Update","apiVersion":"example.com/v1","fieldsType":"FieldsV1","fieldsV1":{"f:a":{}`, `,"f:b":{"f:c":{}}`, "}}]}}", 100_000)},
		"a number":          {"POST", all, "application/json", object(`{"size":1e999999999}`)},
		"a patch of copies": {"PATCH", all + "/a", "application/json-patch+json", many(`[{"op":"add","path":"/spec/labels/0","value":"`+strings.Repeat("x", 1000)+`"}`, `,{"op":"copy","from":"/spec/labels","path":"/spec/labels/-"}`, "]", 40)},
		"a patch of adds":   {"PATCH", all + "/a", "application/json-patch+json", many(`[{"op":"test","path":"/spec/labels/0","value":"x"}`, `,{"op":"add","path":"/spec/labels/0","value":"x"}`, "]", 60_000)},
		"an apply":          {"PATCH", all + "/a?fieldManager=m", "application/apply-patch+yaml", object(many(`{"labels":["x"`, `,"y"`, "]}", 600_000))},
		"no JSON":           {"POST", all, "application/json", strings.Repeat("\x00", 1<<20)},
		"no protobuf":       {"POST", all, "application/vnd.kubernetes.protobuf", "k8s\x00" + strings.Repeat("\xff", 1<<20)},
		"cbor":              {"POST", all, "application/cbor", strings.Repeat("\x9f", 1<<20)},
		"a selector":        {"GET", all + "?labelSelector=" + strings.Repeat("a%3Db,", 60_000), "", ""},
		"a set":             {"GET", all + "?labelSelector=a+in+(" + strings.Repeat("b,", 200_000) + "c)", "", ""},
		"a continue token":  {"GET", all + "?limit=1&continue=" + strings.Repeat("e", 200_000), "", ""},
		"a limit":           {"GET", all + "?limit=9223372036854775807", "", ""},
		"a revision":        {"GET", all + "?resourceVersion=9223372036854775807&timeout=1s", "", ""},
		"a name":            {"GET", all + "/" + strings.Repeat("x", 500_000), "", ""},
		"a deletion":        {"DELETE", all + "/a?dryRun=All", "application/json", many(`{"preconditions":{"uid":"x"},"dryRun":["All"`, `,"All"`, "]}", 300_000)},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		a := ask(t, client, base, "", q.method, q.path, q.contentType, q.body)
		runtime.ReadMemStats(&after)
		if a.code >= 500 && a.code != 504 || a.took > 40*time.Second {
			t.Errorf("%s: %d after %v: %.300s", name, a.code, a.took, a.body)
		}
		if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 1500 {
			t.Errorf("%s: %d MiB were allocated", name, mib)
		}
		if bytes.Contains(a.body, []byte("goroutine ")) || bytes.Contains(a.body, []byte("panic")) {
			t.Errorf("%s: %.300s", name, a.body)
		}
		if ok := ask(t, client, base, "", "GET", all+"/a", "", ""); ok.code != 200 {
			t.Errorf("after %s others get %d", name, ok.code)
		}
	}
}
