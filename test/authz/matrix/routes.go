package matrix

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// route is a line of discovery.
type route struct {
	group, version, resource, subresource string
	kind                                  schemaKind
	namespaced                            bool
	verbs                                 []string
}

// schemaKind is the kind of a route's bodies.
type schemaKind struct{ group, version, kind string }

func (r route) root() []string {
	if r.group == "" {
		return []string{"api", r.version}
	}
	return []string{"apis", r.group, r.version}
}

func (r route) groupVersion() string {
	if r.group == "" {
		return r.version
	}
	return r.group + "/" + r.version
}

// connect says that the route leads to nodes, pods or services.
func (r route) connect() bool {
	return slices.Contains([]string{"exec", "attach", "portforward", "proxy", "log"}, r.subresource)
}

// discovered reads the routes off a server.
func discovered(s *asked) ([]route, error) {
	var versions metav1.APIVersions
	if err := s.document("/api", &versions); err != nil {
		return nil, err
	}
	var roots [][2]string
	for _, v := range versions.Versions {
		roots = append(roots, [2]string{"", v})
	}
	var groups metav1.APIGroupList
	if err := s.document("/apis", &groups); err != nil {
		return nil, err
	}
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			roots = append(roots, [2]string{g.Name, v.Version})
		}
	}
	slices.SortFunc(roots, func(a, b [2]string) int { return strings.Compare(a[0]+"/"+a[1], b[0]+"/"+b[1]) })
	var out []route
	for _, gv := range roots {
		r := route{group: gv[0], version: gv[1]}
		var list metav1.APIResourceList
		if err := s.document("/"+strings.Join(r.root(), "/"), &list); err != nil {
			return nil, err
		}
		slices.SortFunc(list.APIResources, func(a, b metav1.APIResource) int { return strings.Compare(a.Name, b.Name) })
		for _, a := range list.APIResources {
			r.resource, r.subresource, _ = strings.Cut(a.Name, "/")
			r.kind = schemaKind{a.Group, a.Version, a.Kind}
			if a.Version == "" {
				r.kind.group, r.kind.version = r.group, r.version
			}
			r.namespaced, r.verbs = a.Namespaced, a.Verbs
			out = append(out, r)
		}
	}
	return out, nil
}

// place is a route with the names filled in.
type place struct {
	route
	namespace, name string
	everywhere      bool // across namespaces
}

// place chooses names and whether it is the collection that is asked for.
func (g *generator) place(r route) place {
	p := place{route: r}
	if r.namespaced {
		p.namespace = pick(g, "ns1", "ns1", "ns1", "ns1", "ns2", "ns2", "ns2", "kube-system", "nosuch")
	}
	names := g.docs.names(r)
	p.name = names[g.IntN(len(names))]
	switch n := g.IntN(100); {
	case n < 10:
		p.name = "nosuch"
	case n < 14:
		p.name = "b"
	case n < 17:
		p.name = pick(g, "ns2", "A_b", "a.b", "status", "kube-system", "system:masters", "*", "watch", "namespaces")
	}
	if r.subresource == "" && g.chance(35) {
		p.name = ""
		p.everywhere = r.namespaced && g.chance(40)
	}
	return p
}

// key is the object in the state, whatever its version.
func (p place) key() string {
	return strings.Join([]string{p.group, p.resource, p.namespace, p.name}, "/")
}

func (p place) segments() []string {
	out := p.root()
	if p.namespaced && !p.everywhere {
		out = append(out, "namespaces", p.namespace)
	}
	out = append(out, p.resource)
	if p.name != "" {
		out = append(out, p.name)
	}
	if p.subresource != "" {
		out = append(out, p.subresource)
	}
	return out
}

// otherScope puts what is of the cluster under a namespace, and names what is
// in one without it.
func (g *generator) otherScope(p place) []string {
	tail := p.segments()[len(p.root()):]
	if p.namespaced && !p.everywhere {
		tail = tail[2:]
	}
	switch {
	case p.namespaced && g.chance(60):
	case g.chance(75):
		tail = append([]string{"namespaces", pick(g, "ns1", "ns1", "ns2", "nosuch", "")}, tail...)
	default:
		tail = append([]string{"namespaces", pick(g, "ns1", "ns2"), "namespaces", pick(g, "ns1", "ns2", "kube-system")}, tail...)
	}
	return append(p.root(), tail...)
}

// nonResource is a path outside of the API, or its discovery.
func (g *generator) nonResource() string {
	r := pick(g, g.routes...)
	base := pick(g, "/healthz", "/livez", "/readyz", "/version", "/metrics", "/openapi/v2", "/openapi/v3", "/api", "/apis", "/", "", "/logs/", "/debug/pprof/", "/ui", "/swaggerapi",
		"/.well-known/openid-configuration", "/openid/v1/jwks", "/nosuch", "/apis/"+r.group, join(r.root()), "/api/"+r.version, "/apis/"+r.group+"/nosuch", "/apis/nosuch.test/v1", "/openapi/v3/"+strings.Join(r.root(), "/"))
	if g.chance(40) {
		base += pick(g, "/", "//", "/..", "/%2e%2e/api/v1/secrets", "/../api/v1/secrets", "%2f", "/x", "/ping", "?watch=1", "?verbose", "/etcd", "/..%2fapi")
	}
	if g.chance(10) {
		base = "/" + base
	}
	return base
}

// join makes a path of segments that are escaped already.
func join(segments []string) string { return "/" + strings.Join(segments, "/") }

func splitPath(path string) []string { return strings.Split(strings.TrimPrefix(path, "/"), "/") }

// mangle makes another path out of one. Each way is one by which a router and
// an authorizer may come to read different things.
func (g *generator) mangle(segments []string) string {
	s := slices.Clone(segments)
	at := g.IntN(len(s))
	insert := func(i int, what ...string) string { return join(slices.Insert(s, i, what...)) }
	version := min(2, len(s))
	if s[0] == "apis" {
		version = min(3, len(s))
	}
	switch g.IntN(32) {
	case 0:
		return join(s) + "/"
	case 1:
		return join(s) + "//"
	case 2:
		return "/" + join(s)
	case 3, 4:
		return insert(g.IntN(len(s)+1), "")
	case 5:
		return insert(g.IntN(len(s)+1), pick(g, ".", "..", "%2e", "%2e%2e", ".%2e", "x/..", "..;"))
	case 6:
		path := join(s)
		return path[:1] + encodeSlash(path[1:], g.IntN(len(s)))
	case 7:
		s[at] = g.escaped(s[at])
	case 8:
		s[at] = pick(g, strings.ToUpper(s[at]), title(s[at]))
	case 9, 10:
		return insert(len(s), pick(g, "x", "status", "log", "scale", "namespaces", "pods", "a", "exec", "finalize", "token"))
	case 11:
		return insert(len(s), pick(g, "x", "status", "log", "scale", "namespaces"), pick(g, "x", "ns2", "status", "a", ""))
	case 12, 13:
		return insert(version, pick(g, "watch", "watch", "proxy", "redirect", "Watch"))
	case 14:
		if len(s) > version-1 {
			s[version-1] = pick(g, "v1", "v2", "v1beta1", "v1alpha1", "V1", "__internal", "")
		}
	case 15:
		gv := pick(g, g.groups...)
		return join(append(route{group: gv[0], version: gv[1]}.root(), s[version:]...))
	case 16:
		s[0] = pick(g, "api", "apis", "API", "oapi")
	case 17:
		return join(s[:version]) + join(s)
	case 18:
		s = slices.Delete(s, at, at+1)
	case 19:
		return insert(at, s[at])
	case 20:
		other := g.IntN(len(s))
		s[at], s[other] = s[other], s[at]
	case 21:
		s[at] = ""
	case 22:
		s[at] += pick(g, ";x", ";a=b", "%00", "%20", "%0a", "%3f", "%23x", "*", ":x", "%25", "%2f", "%2f..", ",b", "+", "%c3%28", "~", "%5c")
	case 23, 24:
		return insert(len(s), pick(g, g.subresources...))
	case 25:
		// A subresource of the collection, or of another kind.
		s[len(s)-1] = pick(g, g.subresources...)
	case 26:
		s = s[:1+g.IntN(len(s))]
	case 27:
		return pick(g, "http://other", "https://server", "http://") + join(s)
	case 28:
		r := pick(g, g.routes...)
		s[at] = pick(g, r.resource, r.kind.kind, strings.TrimSuffix(r.resource, "s"))
	case 29:
		return insert(version, "namespaces", pick(g, "ns1", "ns2", "", "nosuch"))
	case 30:
		return insert(version, pick(g, "watch", "proxy"), "namespaces", pick(g, "ns1", "ns2", ""))
	case 31:
		return insert(g.IntN(len(s)+1), pick(g, "status", "finalize", "namespaces", "watch", "proxy", "nosuch"))
	}
	return join(s)
}

// encodeSlash escapes the n-th slash of a path.
func encodeSlash(path string, n int) string {
	for i, c := range path {
		if c == '/' {
			if n == 0 {
				return path[:i] + "%2f" + path[i+1:]
			}
			n--
		}
	}
	return path + "%2f"
}

// escaped writes one letter as %xx.
func (g *generator) escaped(s string) string {
	if s == "" {
		return "%2e"
	}
	i := g.IntN(len(s))
	if s[i] == '%' {
		return s
	}
	const hex = "0123456789abcdef"
	return s[:i] + "%" + string(hex[s[i]>>4]) + string(hex[s[i]&15]) + s[i+1:]
}

func title(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// query adds parameters that change what a request means.
func (g *generator) query(r route) string {
	v := url.Values{}
	n := 0
	switch c := g.IntN(100); {
	case c < 12:
		n = 2
	case c < 45:
		n = 1
	}
	for range n {
		name, value, _ := strings.Cut(pick(g, "watch=1", "watch=true", "watch=false", "watch=", "watch=x", "allowWatchBookmarks=true", "sendInitialEvents=true",
			"fieldSelector=metadata.name=a", "fieldSelector=metadata.name=a", "fieldSelector=metadata.name==nosuch", "fieldSelector=metadata.namespace=ns1", "fieldSelector=metadata.name!=a", "fieldSelector=metadata.name=a,metadata.name=b",
			"fieldSelector=nosuch=a", "fieldSelector=garbage", "fieldSelector=metadata.name=../x", "labelSelector=app=m", "labelSelector=app in (", "labelSelector=,",
			"dryRun=All", "dryRun=", "dryRun=x", "resourceVersion=0", "resourceVersion=garbage", "resourceVersion=-1", "resourceVersionMatch=Exact", "resourceVersionMatch=garbage",
			"limit=1", "limit=-1", "limit=x", "continue=garbage", "timeout=garbage", "timeout=5s", "timeoutSeconds=1", "timeoutSeconds=x", "pretty", "pretty=true",
			"propagationPolicy=Background", "propagationPolicy=x", "orphanDependents=true", "gracePeriodSeconds=0", "gracePeriodSeconds=x", "fieldManager=m", "fieldValidation=Strict", "fieldValidation=x",
			"force=true", "name=b", "namespace=ns2", "method=DELETE", "_method=DELETE", "path=/x", "path=../../ns2/secrets", "command=ls", "container=c", "container=x", "export=true", "shardSelector=x", "%zz=1", "a;b=1"), "=")
		v.Add(name, value)
	}
	if r.connect() && g.chance(30) {
		v.Add(pick(g, "container", "command", "ports", "stdout", "follow", "tailLines", "path"), pick(g, "c", "true", "80", "/x", ""))
	}
	if len(v) == 0 {
		return ""
	}
	enc := v.Encode()
	if g.chance(5) {
		enc = strings.ReplaceAll(enc, "&", ";")
	}
	switch g.IntN(40) {
	case 0:
		enc = "&" + enc + "&" + enc
	case 1:
		enc += "&%zz"
	}
	return "?" + enc
}

// fenced are collections that both servers live on: deleting all of one says
// something about the request only, so it is asked for as a dry run.
var fenced = []string{"apiservices", "clusterroles", "clusterrolebindings", "flowschemas", "prioritylevelconfigurations", "namespaces", "customresourcedefinitions",
	"servicecidrs", "ipaddresses", "leases", "roles", "rolebindings", "endpoints", "endpointslices", "services", "priorityclasses", "serviceaccounts", "configmaps", "events"}

// tame keeps a request from taking away what the servers themselves need.
func (g *generator) tame(q *request) {
	path, query, _ := strings.Cut(q.Target, "?")
	plain, err := url.PathUnescape(path)
	if err != nil {
		plain = path
	}
	segments := strings.FieldsFunc(strings.ToLower(plain), func(c rune) bool { return c == '/' })
	hit := len(segments) > 0 && slices.Contains(fenced, segments[len(segments)-1])
	for _, s := range segments {
		hit = hit || s == "kube-system" || s == "customresourcedefinitions"
	}
	if !hit || strings.Contains(query, "dryRun") || q.Method != "DELETE" && q.Method != "delete" {
		return
	}
	q.Target = path + "?dryRun=All"
	if query != "" {
		q.Target += "&" + query
	}
	if strings.Contains(q.Body, "dryRun") || strings.Contains(q.Body, "DeleteOptions") {
		q.Body = "" // its options would count, not the query's
		delete(q.Header, "Content-Type")
	}
}

// clone copies a document.
func clone(o map[string]any) map[string]any {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	out := map[string]any{}
	if err := json.Unmarshal(data, &out); err != nil {
		panic(err)
	}
	return out
}
