package matrix

import (
	"math/rand/v2"
	"net/http"
)

// request is one to be sent, as it goes over the wire. ${uid} and ${rv} in its
// body stand for those of the object that it aims at.
type request struct {
	User   string            `json:"user,omitempty"`
	Method string            `json:"method"`
	Target string            `json:"target"`
	Header map[string]string `json:"header,omitempty"`
	Body   string            `json:"body,omitempty"`
	// Key is the object that the path was made from, for ${uid} and ${rv}.
	Key string `json:"key,omitempty"`
}

// generator makes requests out of a seed.
type generator struct {
	*rand.Rand
	routes       []route
	subresources []string // of any kind
	groups       [][2]string
	users        []user
	docs         *documents
}

func newGenerator(seed uint64, routes []route, users []user, docs *documents) *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 12)), routes: routes, users: users, docs: docs}
	seen := map[string]bool{}
	for _, r := range routes {
		if r.subresource != "" && !seen[r.subresource] {
			seen[r.subresource] = true
			g.subresources = append(g.subresources, r.subresource)
		}
		if gv := r.group + "/" + r.version; !seen[gv] {
			seen[gv] = true
			g.groups = append(g.groups, [2]string{r.group, r.version})
		}
	}
	return g
}

func pick[T any](g *generator, of ...T) T { return of[g.IntN(len(of))] }

// chance is true n times of a hundred.
func (g *generator) chance(n int) bool { return g.IntN(100) < n }

// next makes a request.
func (g *generator) next() request {
	r := pick(g, g.routes...)
	if r.subresource != "" && g.chance(40) {
		r = pick(g, g.routes...) // or half of all were subresources
	}
	p := g.place(r)
	q := request{User: g.user(), Method: g.method(r), Header: map[string]string{}, Key: p.key()}
	straight := g.chance(30)
	if straight {
		q.User, q.Method = pick(g, "admin", "admin", "ns1-all"), methodOf(pick(g, r.verbs...))
	}
	segments := p.segments()
	if g.chance(12) && !straight {
		segments = g.otherScope(p)
	}
	path := join(segments)
	switch n := g.IntN(100); {
	case straight:
	case n < 4:
		path = g.nonResource()
	case n < 40:
		path = g.mangle(segments)
	case n < 50:
		path = g.mangle(splitPath(g.mangle(segments)))
	}
	q.Target = path
	if !straight || g.chance(20) {
		q.Target += g.query(r)
	}
	g.headers(&q, r)
	switch q.Method {
	case http.MethodPost, http.MethodPut:
		q.Body = g.document(p)
		g.contentType(&q, "application/json", 92)
	case http.MethodPatch:
		g.patch(&q, p)
	case http.MethodDelete:
		if g.chance(50) {
			q.Body = g.deleteOptions()
			g.contentType(&q, "application/json", 92)
		}
	default:
		if g.chance(3) {
			q.Body = g.document(p)
		}
	}
	g.tame(&q)
	return q
}

// user picks one; the ones who may do much come more often, because all others
// are mostly refused.
func (g *generator) user() string {
	switch n := g.IntN(100); {
	case n < 35:
		return "admin"
	case n < 50:
		return "ns1-all"
	case n < 53:
		return "" // anonymous
	}
	return pick(g, g.users...).name
}

// methodOf is the method by which a verb is asked for.
func methodOf(verb string) string {
	switch verb {
	case "create":
		return http.MethodPost
	case "update":
		return http.MethodPut
	case "patch":
		return http.MethodPatch
	case "delete", "deletecollection":
		return http.MethodDelete
	}
	return http.MethodGet
}

func (g *generator) method(r route) string {
	if r.connect() && g.chance(40) {
		return pick(g, "GET", "POST")
	}
	switch n := g.IntN(100); {
	case n < 26:
		return "GET"
	case n < 42:
		return "POST"
	case n < 57:
		return "PUT"
	case n < 77:
		return "PATCH"
	case n < 91:
		return "DELETE"
	case n < 95:
		return "HEAD"
	}
	return pick(g, "OPTIONS", "OPTIONS", "CONNECT", "TRACE", "FOO", "get", "WATCH", "LIST", "PROPFIND", "delete")
}

// headers adds those by which methods, users or protocols are claimed.
func (g *generator) headers(q *request, r route) {
	if r.connect() && g.chance(30) {
		q.Header["Connection"], q.Header["Upgrade"] = "Upgrade", pick(g, "websocket", "SPDY/3.1", "h2c")
		if q.Header["Upgrade"] == "websocket" {
			q.Header["Sec-WebSocket-Version"], q.Header["Sec-WebSocket-Key"] = "13", "dGhlIHNhbXBsZSBub25jZQ=="
			q.Header["Sec-WebSocket-Protocol"] = pick(g, "v5.channel.k8s.io", "v4.channel.k8s.io", "nosuch")
		}
	}
	if !g.chance(6) {
		return
	}
	h := [][2]string{
		{"X-HTTP-Method-Override", "DELETE"}, {"X-HTTP-Method", "PUT"}, {"X-Method-Override", "GET"},
		{"Impersonate-User", "admin"}, {"Impersonate-User", "system:serviceaccount:ns1:a"}, {"Impersonate-Group", "system:masters"}, {"Impersonate-Uid", "1"},
		{"X-Remote-User", "admin"}, {"X-Remote-Group", "system:masters"}, {"X-Forwarded-User", "admin"}, {"X-Original-URL", "/api/v1/secrets"}, {"X-Rewrite-URL", "/api/v1/secrets"},
		{"Accept", "application/yaml"}, {"Accept", "application/json;as=Table;v=v1;g=meta.k8s.io"}, {"Accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"},
		{"Accept", "application/vnd.kubernetes.protobuf"}, {"Accept", "text/html"}, {"Accept", "application/json;as=Nosuch;v=v1;g=meta.k8s.io"}, {"Accept", "*/*"},
	}
	p := pick(g, h...)
	q.Header[p[0]] = p[1]
}

func (g *generator) contentType(q *request, usual string, percent int) {
	if g.chance(percent) {
		q.Header["Content-Type"] = usual
		return
	}
	if t := pick(g, "", "application/yaml", "text/plain", "application/vnd.kubernetes.protobuf", "application/merge-patch+json", "application/json; charset=utf-8", "garbage"); t != "" {
		q.Header["Content-Type"] = t
	}
}
