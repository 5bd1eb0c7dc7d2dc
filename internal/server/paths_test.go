package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// listed is a resource or subresource as discovery lists it.
type listed struct {
	prefix      string // "/api/v1", "/apis/apps/v1"
	resource    string
	subresource string
	namespaced  bool
	verbs       []string
}

// path returns the path of an object of a name or of its subresource; name "" is
// the collection.
func (l *listed) path(namespace, name string) string {
	p := l.prefix
	if namespace != "" {
		p += "/namespaces/" + namespace
	}
	p += "/" + l.resource
	for _, part := range []string{name, l.subresource} {
		if part != "" {
			p += "/" + part
		}
	}
	return p
}

func ask(t testing.TB, rt http.RoundTripper, method, path, contentType, body string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel() // ends watches
	req, err := http.NewRequestWithContext(ctx, method, "http://kanzen"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return resp.StatusCode, ""
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// discovered returns everything that discovery lists.
func discovered(t testing.TB, rt http.RoundTripper) []listed {
	t.Helper()
	var out []listed
	for _, root := range []string{"/api", "/apis"} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://kanzen"+root, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		resp, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		var groups apidiscoveryv2.APIGroupDiscoveryList
		err = json.NewDecoder(resp.Body).Decode(&groups)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range groups.Items {
			for _, v := range g.Versions {
				prefix := strings.TrimSuffix(root+"/"+g.Name, "/") + "/" + v.Version
				for _, r := range v.Resources {
					l := listed{prefix: prefix, resource: r.Resource, namespaced: r.Scope == apidiscoveryv2.ScopeNamespace, verbs: r.Verbs}
					out = append(out, l)
					for _, s := range r.Subresources {
						l.subresource, l.verbs = s.Subresource, s.Verbs
						out = append(out, l)
					}
				}
			}
		}
	}
	return out
}

// withCustom starts a server that has custom resources of both scopes, and
// namespaces ns1 and ns2.
func withCustom(t testing.TB) *kanzentest.Server {
	t.Helper()
	s := kanzentest.Start(t)
	admin := s.Config().Transport
	for _, name := range []string{"ns1", "ns2"} {
		made(t, admin, "/api/v1/namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	yes := true
	for plural, scope := range map[string]apiextensionsv1.ResourceScope{"foos": apiextensionsv1.NamespaceScoped, "bars": apiextensionsv1.ClusterScoped} {
		made(t, admin, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: plural + ".example.com"},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: "example.com", Scope: scope,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: plural[:3], Kind: strings.ToUpper(plural[:1]) + plural[1:3]},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
					Name: "v1", Served: true, Storage: true,
					Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &yes}},
					Subresources: &apiextensionsv1.CustomResourceSubresources{
						Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
						Scale:  &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas"},
					},
				}},
			}})
		for code := 0; code != http.StatusOK; time.Sleep(2 * time.Millisecond) { // until the definition is in force
			code, _ = ask(t, admin, "GET", "/apis/example.com/v1/"+plural, "", "")
		}
	}
	return s
}

func made(t testing.TB, rt http.RoundTripper, path string, obj any) {
	t.Helper()
	b, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	if code, answer := ask(t, rt, "POST", path, "application/json", string(b)); code != http.StatusCreated {
		t.Fatalf("POST %s: %d %s", path, code, answer)
	}
}

// granted makes a user with one rule in the namespace ns1 and no other, and
// returns when the authorizer has seen it.
func granted(t testing.TB, s *kanzentest.Server, name string, rule rbacv1.PolicyRule) http.RoundTripper {
	t.Helper()
	const path = "/apis/rbac.authorization.k8s.io/v1/namespaces/ns1/"
	admin := s.Config().Transport
	made(t, admin, path+"roles", &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{rule}})
	made(t, admin, path+"rolebindings", &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}}})
	resource, sub, _ := strings.Cut(rule.Resources[0], "/")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: name, ResourceAttributes: &authorizationv1.ResourceAttributes{
		Namespace: "ns1", Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: resource, Subresource: sub}}}
	client := kubernetes.NewForConfigOrDie(s.Config()).AuthorizationV1().SubjectAccessReviews()
	for {
		r, err := client.Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Status.Allowed {
			return s.Transport(&user.DefaultInfo{Name: name, Groups: []string{user.AllAuthenticated}})
		}
	}
}

var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "FOO"}

// TestScope requests every cluster-scoped resource below a namespace, as a user
// who may do everything in that namespace. The path is authorized, but it must
// not be served.
func TestScope(t *testing.T) {
	s := withCustom(t)
	all := []string{"*"}
	mine, asked := granted(t, s, "owner", rbacv1.PolicyRule{Verbs: all, APIGroups: all, Resources: all}), 0
	for _, l := range discovered(t, s.Config().Transport) {
		if l.namespaced {
			continue
		}
		for _, name := range []string{"", "ns1", "ns2", "kube-system", "cluster-admin"} {
			if name == "" && l.subresource != "" {
				continue
			}
			for _, method := range methods {
				path := l.path("ns1", name)
				if code, answer := ask(t, mine, method, path, "application/merge-patch+json", "{}"); code != http.StatusNotFound {
					t.Errorf("%s %s: %d %.200s, want 404", method, path, code, answer)
				}
				asked++
			}
		}
	}
	client := kubernetes.NewForConfigOrDie(s.Config())
	for _, name := range []string{"ns1", "ns2", "kube-system"} {
		if ns, err := client.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{}); err != nil || ns.DeletionTimestamp != nil {
			t.Errorf("namespace %s: %v %v", name, ns, err)
		}
	}
	if asked < 1000 {
		t.Errorf("only %d requests were made", asked)
	}
}

// TestSubresourcesCreateNothing writes to every subresource of objects that do
// not exist, with every method.
func TestSubresourcesCreateNothing(t *testing.T) {
	s := withCustom(t)
	admin := s.Config().Transport
	writes := [][2]string{{"PATCH", "application/apply-patch+yaml"}, {"PATCH", "application/merge-patch+json"}, {"PATCH", "application/strategic-merge-patch+json"},
		{"PATCH", "application/json-patch+json"}, {"PUT", "application/json"}, {"POST", "application/json"}}
	kinds := kindsOf(t, admin)
	for _, l := range discovered(t, admin) {
		if l.subresource == "" || l.subresource == "proxy" {
			continue
		}
		namespace := ""
		if l.namespaced {
			namespace = "ns1"
		}
		main := l
		main.subresource = ""
		for _, w := range writes {
			for _, kind := range []string{kinds[l.prefix+"/"+l.resource], kinds[l.prefix+"/"+l.resource+"/"+l.subresource]} {
				group, version, k := split3(kind)
				spec := map[string]string{
					"Pod":   `,"spec":{"nodeName":"n","containers":[{"name":"c","image":"i","securityContext":{"privileged":true}}]}`,
					"Scale": `,"spec":{"replicas":1}`, "Service": `,"spec":{"ports":[{"port":1}]}`,
				}[k]
				body := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"none","namespace":%q}%s}`,
					strings.TrimPrefix(group+"/"+version, "/"), k, namespace, spec)
				if w[1] == "application/json-patch+json" {
					body = `[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]`
				}
				path := l.path(namespace, "none") + "?fieldManager=m&force=true"
				if w[1] != "application/apply-patch+yaml" {
					path = l.path(namespace, "none")
				}
				if code, answer := ask(t, admin, w[0], path, w[1], body); code < 400 {
					t.Errorf("%s %s with %s: %d %.200s", w[0], path, w[1], code, answer)
				}
				if code, _ := ask(t, admin, "GET", main.path(namespace, "none"), "", ""); code != http.StatusNotFound && code != http.StatusMethodNotAllowed {
					t.Errorf("%s %s with %s made an object: %d", w[0], path, w[1], code)
				}
			}
		}
	}
}

// kindsOf returns "group/version/kind" of every resource and subresource by its
// path.
func kindsOf(t testing.TB, rt http.RoundTripper) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, l := range discovered(t, rt) {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://kanzen"+l.prefix, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := out[l.prefix+"/"+l.resource]; ok {
			continue
		}
		resp, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		var list metav1.APIResourceList
		err = json.NewDecoder(resp.Body).Decode(&list)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		gv := list.GroupVersion
		if !strings.Contains(gv, "/") {
			gv = "/" + gv
		}
		for _, r := range list.APIResources {
			k := gv + "/" + r.Kind
			if r.Version != "" {
				k = r.Group + "/" + r.Version + "/" + r.Kind
			}
			out[l.prefix+"/"+r.Name] = k
		}
	}
	return out
}

func split3(s string) (a, b, c string) {
	a, s, _ = strings.Cut(s, "/")
	b, c, _ = strings.Cut(s, "/")
	return a, b, c
}

// TestStreamsNeedCreate opens streams by GET, as websockets do, with only the
// permission to get.
func TestStreamsNeedCreate(t *testing.T) {
	s := withCustom(t)
	admin := s.Config().Transport
	made(t, admin, "/api/v1/namespaces/ns1/serviceaccounts", &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "sa"}})
	made(t, admin, "/api/v1/namespaces/ns1/pods", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{ServiceAccountName: "sa", Containers: []corev1.Container{{Name: "c", Image: "i"}}}})
	streams := []string{"pods/exec", "pods/attach", "pods/portforward"}
	reader := granted(t, s, "reader", rbacv1.PolicyRule{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: streams})
	creator := granted(t, s, "creator", rbacv1.PolicyRule{Verbs: []string{"get", "create"}, APIGroups: []string{""}, Resources: streams})
	for _, sub := range []string{"exec", "attach", "portforward"} {
		p := "/api/v1/namespaces/ns1/pods/p/" + sub
		if code, answer := ask(t, reader, "GET", p, "", ""); code != http.StatusForbidden || !strings.Contains(answer, "cannot create resource") {
			t.Errorf("GET %s with get alone: %d %s", p, code, answer)
		}
		if code, answer := ask(t, creator, "GET", p, "", ""); code != http.StatusBadRequest || !strings.Contains(answer, "does not have a host assigned") {
			t.Errorf("GET %s with create: %d %s", p, code, answer)
		}
		for _, odd := range []string{"/api/v1/namespaces/ns1/pods//" + sub, "/api/v1/namespaces/ns1/pods//" + sub + "?fieldSelector=metadata.name%3Dp", p + "/x"} {
			for _, method := range methods {
				if code, answer := ask(t, admin, method, odd, "", ""); code != http.StatusNotFound {
					t.Errorf("%s %s: %d %s, want 404", method, odd, code, answer)
				}
			}
		}
		for _, method := range []string{"HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "FOO"} {
			if code, answer := ask(t, admin, method, p, "", ""); code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d %s, want 405", method, p, code, answer)
			}
		}
	}
}

// FuzzPaths requests any path with any method. Every resource that is served
// must be listed by discovery, and be served only at the path that discovery
// gives.
func FuzzPaths(f *testing.F) {
	s := withCustom(f)
	admin := s.Config().Transport
	all := discovered(f, admin)
	served := map[string]listed{} // by prefix/resource[/subresource]
	for _, l := range all {
		served[l.prefix+"/"+l.resource+"/"+l.subresource] = l
		ns := ""
		if l.namespaced {
			ns = "ns1"
		}
		f.Add("GET", l.path(ns, "x"), "")
	}
	for _, seed := range []string{"DELETE /api/v1/namespaces/ns1/namespaces/ns2", "GET /api/v1/namespaces/ns1/pods//exec?fieldSelector=metadata.name%3Dx", "POST /api/v1/watch/pods", "GET /api/v1/watch/namespaces/ns1/pods/x",
		"GET /api/v1/namespaces//pods", "GET //api/v1/pods", "PATCH /api/v1/namespaces/ns1/status", "GET /apis/example.com/v1/namespaces/ns1/foos/x/status/y", "OPTIONS /api/v1/nodes/x/proxy/a//b", "GET /api/v1/proxy/nodes/x"} {
		method, target, _ := strings.Cut(seed, " ")
		path, query, _ := strings.Cut(target, "?")
		f.Add(method, path, query)
	}
	f.Fuzz(func(t *testing.T, method, path, query string) {
		u := &url.URL{Scheme: "http", Host: "kanzen", Path: path, RawQuery: query}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
		if err != nil {
			return
		}
		req.URL = u
		resp, err := admin.RoundTrip(req)
		if err != nil {
			return
		}
		resp.Body.Close()
		if code := resp.StatusCode; code == http.StatusNotFound && resp.Header.Get("Content-Type") != "" || code == http.StatusMethodNotAllowed {
			return
		}
		if parts := strings.Split(strings.Trim(path, "/"), "/"); len(parts) < 3 || parts[0] != "api" && (parts[0] != "apis" || len(parts) < 4) {
			return // no resource
		} else if !isListed(served, method, path, parts) && resp.StatusCode != http.StatusInternalServerError {
			t.Errorf("%s %q?%s is answered with %d, and discovery does not list it", method, path, query, resp.StatusCode)
		}
	})
}

// isListed parses a path by means of discovery, independently of the server's
// own parser.
func isListed(served map[string]listed, method, path string, parts []string) bool {
	n := 2
	if parts[0] == "apis" {
		n = 3
	}
	if !strings.HasPrefix(path, "/"+parts[0]) {
		return false
	}
	prefix, rest := "/"+strings.Join(parts[:n], "/"), parts[n:]
	watch := rest[0] == "watch"
	if watch {
		rest = rest[1:]
	}
	namespace := ""
	if len(rest) > 2 && rest[0] == "namespaces" && !(len(rest) == 3 && (rest[2] == "status" || rest[2] == "finalize")) {
		if namespace, rest = rest[1], rest[2:]; namespace == "" {
			return false
		}
	}
	rest = append(rest, "", "", "")
	l, ok := served[prefix+"/"+rest[0]+"/"+rest[2]]
	if !ok || rest[1] == "" && rest[2] != "" || rest[3] != "" && rest[2] != "proxy" {
		return false
	}
	if l.namespaced != (namespace != "") && !(l.namespaced && rest[1] == "" && method == "GET") {
		return false
	}
	verbs := map[string][]string{"GET": {"get"}, "HEAD": {"get"}, "PUT": {"update"}, "PATCH": {"patch"}, "DELETE": {"delete"}, "POST": {"create"}}[method]
	switch {
	case watch:
		verbs = []string{"watch"}
		if method != "GET" {
			return false
		}
	case rest[2] == "proxy":
		return verbs != nil || method == "OPTIONS"
	case rest[1] == "" && method == "DELETE":
		verbs = []string{"deletecollection"}
	case rest[1] == "" && (method == "GET" || method == "HEAD"):
		verbs = []string{"list", "watch"}
	case rest[1] == "" && method != "POST", rest[1] != "" && rest[2] == "" && method == "POST":
		return false
	}
	return slices.ContainsFunc(verbs, func(v string) bool { return slices.Contains(l.verbs, v) })
}
