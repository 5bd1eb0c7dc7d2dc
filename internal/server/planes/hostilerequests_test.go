package planes

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"

	"github.com/kanzen-io/kanzen/internal/server/planes/exports"
)

// This file makes the requests of TestHostile: each is a credential, an address, a path below that, a method, a body and headers.

// attack is one request.
type attack struct {
	credential *credential
	serverName string // in TLS
	method     string
	target     string // of the request line
	host       string
	header     string // lines
	body       string
}

func (a *attack) String() string {
	return fmt.Sprintf("%s by %s (server name %q, host %q): %q %.200q", a.method, a.credential.name, a.serverName, a.host, a.target, a.body)
}

// text is the request as it is sent.
func (a *attack) text() string {
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\n", a.method, a.target, a.host, hostileAgent)
	if t := a.credential.token; t != "" {
		head += "Authorization: " + t + "\r\n"
	}
	if a.body != "" || a.method == "POST" {
		head += fmt.Sprintf("Content-Length: %d\r\n", len(a.body))
	}
	return head + a.credential.header + a.header + "\r\n" + a.body
}

const hostileAgent = "hostile/1"

// targets is what the requests are about.
type targets struct {
	uid         string // of the plane that is attacked
	port        string // of the root
	collections []collection
	revision    string
}

// collection is one of the API, as discovery has it.
type collection struct {
	group, plural string // "/apis/apps/v1", "deployments"
	namespaced    bool
}

// pages are the paths that are no resources, and those of the root's own APIs.
var pages = []string{"/", "/api", "/apis", "/version", "/healthz", "/livez?verbose", "/readyz/ping", "/metrics", "/metrics/slis", "/statusz", "/flagz", "/openapi/v3", "/openapi/v3/api/v1",
	"/.well-known/openid-configuration", "/openid/v1/jwks", "/debug/api_priority_and_fairness/dump_requests", "/debug/pprof/", "/debug/pprof/goroutine?debug=2", "/debug/pprof/heap",
	"/debug/pprof/cmdline", "/debug/flags/v", "/snapshot", "/encryption", "/console", "/console/", "/console/api/requests", "/forks", "/forks/f", "/forks/f/api/v1/secrets",
	widgetsPath, widgetsPath + "/c", allWidgets, allWidgets + "?watch=1&timeoutSeconds=1", exportsPath, exportsPath + "/widgets", bindingsPath, bindingsPath + "/widgets", "/exports/widgets", "/exports/widgets/planes",
	planesPath, planesPath + "/a", planesPath + "/a/status", planesPath + "/a/export", planesPath + "/a/import", templatesPath, secretsPath, secretsPath + "/a-keys", secretsPath + "/a-kubeconfig",
	"/apis/flightrecorder.kanzen.io/v1alpha1/requests", "/apis/flightrecorder.kanzen.io/v1alpha1/requests?watch=1", "/apis/flightrecorder.kanzen.io/v1alpha1/watches",
	"/apis/flightrecorder.kanzen.io/v1alpha1/datastores", "/apis/flightrecorder.kanzen.io/v1alpha1/findings", "/apis/flightrecorder.kanzen.io/v1alpha1/namespaces/shop/objecthistories/c",
	"/apis/history.kanzen.io/v1/namespaces/shop/changes", "/apis/bundle.kanzen.io/v1/bundles", "/apis/forks.kanzen.io/v1/merges", "/api/v1/namespaces/shop/secrets/s?at=1m", "/api/v1/namespaces/shop/configmaps/c?revisions=true"}

// inner is a path as the plane would see it.
func (t *targets) inner(r *rand.Rand) string {
	if r.IntN(3) == 0 {
		return pick(r, pages)
	}
	c := pick(r, t.collections)
	group, plural, path := c.group, c.plural, c.group
	if namespace := pick(r, []string{"", "shop", "default", "kube-system", "kanzen-planes"}); namespace != "" && (c.namespaced || r.IntN(8) == 0) {
		path += "/namespaces/" + namespace
	}
	path += "/" + plural
	if r.IntN(8) == 0 {
		path = strings.Replace(path, group, group+"/watch", 1)
	}
	if r.IntN(2) == 0 {
		path += "/" + pick(r, []string{"c", "s", "n", "default", "p", "none"})
		if r.IntN(3) == 0 {
			path += pick(r, []string{"/status", "/log", "/exec?command=sh&stdout=1", "/attach", "/portforward?ports=1", "/proxy/", "/token", "/scale", "/finalize", "/approval", "/eviction"})
		}
	}
	query := pick(r, []string{"", "", "", "watch=1&timeoutSeconds=1", "watch=1&resourceVersion=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", "limit=1",
		"labelSelector=!a", "resourceVersion=0", "resourceVersion=" + t.revision, "visible=true", "namespaces=shop", "at=1m", "dryRun=All", "fieldManager=x&force=true", "continue=" + t.token(r),
		"access_token=x", "pretty=true", "revisions=true", "fields=metadata.name", "sort=metadata.name"})
	if query != "" {
		separator := "?"
		if strings.Contains(path, "?") {
			separator = "&"
		}
		path += separator + query
	}
	return path
}

// token is a continue token that goes on where a key of the attacked plane is.
func (t *targets) token(r *rand.Rand) string {
	start := pick(r, []string{"../../" + t.uid + "/registry/secrets/shop/s", "/../../../" + t.uid + "/", Prefix + t.uid + "/", "shop/s\x00"})
	return url.QueryEscape(base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"v":"meta.k8s.io/v1","rv":%s,"start":%q}`, t.revision, start)))
}

// Ways to write that a request is for the plane a. canonical are those that are right; the other ones may lead to another plane, to the root
// or nowhere.
var (
	canonical = []func(*attack, string){
		func(a *attack, path string) { a.target = "/planes/a" + path },
		func(a *attack, path string) { a.serverName, a.host, a.target = "a.planes.test", "a.planes.test", path },
		func(a *attack, path string) { a.serverName, a.target = "A.PLANES.TEST", path },
		func(a *attack, path string) { a.target = "https://127.0.0.1/planes/a" + path },
	}
	crooked = append([]func(*attack, string){
		func(a *attack, path string) { a.serverName, a.host, a.target = "b.planes.test", "a.planes.test", path },
		func(a *attack, path string) { a.serverName, a.target = "b.planes.test", "https://a.planes.test"+path },
		func(a *attack, path string) { a.serverName, a.target = "b.planes.test", "/planes/a"+path },
		func(a *attack, path string) { a.serverName, a.target = "a.planes.test", "/planes/b"+path },
		func(a *attack, path string) { a.host, a.target = "a.planes.test", path },
		func(a *attack, path string) { a.host, a.target = "a.planes.test", "/planes/b"+path },
	}, prefixes("//planes/a", "/planes//a", "/planes/a/", "/planes/a//", "/planes/./a", "/./planes/a", "/planes/b/../a", "/planes/b/..%2fa", "/planes/b/%2e%2e/a", "/planes/b%2f..%2fa", "/planes/a%2f",
		"/planes/a/..%2f", "/planes/a%2f..", "/planes/%61", "/%70lanes/a", "/planes%2fa", "/PLANES/a", "/planes/A", "/planes/a;b", "/planes/a%00", "/planes/a%20", "/planes/a%3f", "/planes/a%23", "/planes/a.",
		"/planes/a.planes.test", "/planes/b/planes/a", "/planes/a/planes/b", "/planes/b/forks/f/planes/a", "/forks/f/planes/a", "/forks/f", "/planes/b/forks/f", "/planes/a/forks/f", "/planes/\\a", "/planes/b\\..\\a", "/planes/b/..;/a",
		"/planes/b/.%2e/a", "/planes/b/..%252fa", "/planes/b/..%c0%afa", "", "/planes", "/planes/", "/planes/base-", "/planes/..", "/planes/{uid}")...)
	// within are requests to b itself, or to the root, which may lead out of it.
	within = append([]func(*attack, string){
		func(a *attack, path string) { a.target = "/planes/b/api/v1/nodes/https:n:{port}/proxy/planes/a" + path },
		func(a *attack, path string) {
			a.target = "/planes/b/api/v1/namespaces/default/services/https:local:443/proxy/planes/a" + path
		},
		func(a *attack, path string) {
			a.target = "/planes/b/api/v1/namespaces/..%2f..%2f..%2f{uid}%2fregistry" + path
		},
		func(a *attack, path string) {
			a.target = "/planes/b/api/v1/namespaces/default/secrets/..%2f..%2f..%2f..%2f{uid}%2fregistry%2fsecrets%2fshop%2fs"
		},
		func(a *attack, path string) { a.target = "/planes/b/apis/evil.example.com/v1/planes/a" + path },
		func(a *attack, path string) { a.serverName, a.target = "b.planes.test", path },
	}, prefixes("/planes/b", "/planes/b", "/planes/b", "/planes/b", "/planes/b", "", "", "/planes/b/api/v1/namespaces/default/services/local/proxy", "/planes/b/api/v1/namespaces/default/pods/p/proxy", "/planes/b/forks/f")...)
	// exported are requests to b for what it exports, which c has bound.
	exported = append([]func(*attack, string){
		func(a *attack, _ string) {
			a.target = "/planes/b" + exports.Path + "/widgets/planes/c" + widgetsPath + "/c"
		},
		func(a *attack, _ string) {
			a.target = "/planes/b" + exports.Path + "/widgets/planes/c" + widgetsPath + "?watch=1&timeoutSeconds=1"
		},
		func(a *attack, _ string) { a.target = "/planes/b" + exports.Path + "/widgets" + allWidgets },
	}, prefixes(
		"/planes/b/exports/widgets", "/planes/b/exports/widgets/planes/c", "/planes/b/exports/widgets/planes/c", "/planes/b/exports/widgets/planes/c", "/planes/b/exports/widgets/planes/c", "/planes/b/exports/widgets/planes/a",
		"/planes/b/exports/widgets/planes/b", "/planes/b/exports/widgets/planes/c/../a", "/planes/b/exports/widgets/planes/c%2f..%2fa", "/planes/b/exports/widgets/planes/%63", "/planes/b/exports/widgets/planes/..%2fa",
		"/planes/b/exports/../planes/a", "/planes/b/exports/..%2f..%2fplanes%2fa", "/planes/b/exports/none", "/planes/b/exports/widgets/planes", "/planes/b/exports/widgets/planes/{uid}", "/exports/widgets/planes/c")...)
)

func prefixes(all ...string) (out []func(*attack, string)) {
	for _, prefix := range all {
		out = append(out, func(a *attack, path string) { a.target = prefix + path })
	}
	return out
}

// headers are lines that may make somebody believe that the request is another one.
var headers = []string{"", "", "", "", "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n",
	"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n",
	"X-Original-URL: /planes/a/api/v1/secrets\r\nX-Rewrite-URL: /planes/a/api/v1/secrets\r\n", "X-Forwarded-Host: a.planes.test\r\nX-Forwarded-Prefix: /planes/a\r\nX-Forwarded-For: 127.0.0.1\r\n",
	"X-HTTP-Method-Override: GET\r\n", "Accept: application/vnd.kubernetes.protobuf\r\n", "Accept: application/json;as=Table;v=v1;g=meta.k8s.io\r\n", "Accept: application/cbor\r\n",
	"Audit-Id: ../a\r\n", "Impersonate-User: kubernetes-admin\r\nImpersonate-Group: system:masters\r\n", "Impersonate-User: system:apiserver\r\n", "X-Remote-User: kubernetes-admin\r\nX-Remote-Group: system:masters\r\n",
	"Origin: https://a.planes.test\r\n", "Cookie: kanzen-console=x\r\n", "Connection: X-Remote-User, Authorization\r\n"}

var methods = []string{"GET", "GET", "GET", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "WATCH"}

// bodies are those of requests that write, with their media types.
var bodies = []string{"application/json {\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"c\",\"namespace\":\"shop\"},\"data\":{\"of\":\"attacker\"}}",
	"application/merge-patch+json {\"metadata\":{\"labels\":{\"of\":\"attacker\"},\"finalizers\":null}}", "application/json-patch+json [{\"op\":\"add\",\"path\":\"/metadata/labels\",\"value\":{\"of\":\"attacker\"}}]",
	"application/apply-patch+yaml apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {of: attacker}\n", "application/strategic-merge-patch+json {\"data\":{\"of\":\"attacker\"}}",
	"application/json {\"apiVersion\":\"authentication.k8s.io/v1\",\"kind\":\"TokenRequest\",\"spec\":{\"audiences\":[\"https://kubernetes.default.svc\"]}}",
	"application/json {\"apiVersion\":\"authorization.k8s.io/v1\",\"kind\":\"SelfSubjectRulesReview\",\"spec\":{\"namespace\":\"shop\"}}",
	"application/json {\"apiVersion\":\"bundle.kanzen.io/v1\",\"kind\":\"Bundle\",\"spec\":{\"items\":[{\"object\":{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"..\",\"namespace\":\"../../a\"}}}]}}",
	"application/json {\"apiVersion\":\"planes.kanzen.io/v1\",\"kind\":\"Plane\",\"metadata\":{\"name\":\"c\"},\"spec\":{}}",
	"application/json {\"propagationPolicy\":\"Background\",\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\"}", "application/vnd.kubernetes.protobuf k8s\x00\n\x0f\n\x02v1\x12\tConfigMap", "application/cbor \xd9\xd9\xf7\xa0", "text/plain x"}

// make makes a request at random.
func (t *targets) make(r *rand.Rand, by []*credential) *attack {
	a := &attack{credential: pick(r, by), method: pick(r, methods), host: "127.0.0.1", header: pick(r, headers)}
	ways := pick(r, [][]func(*attack, string){canonical, crooked, within, exported})
	if a.credential.canonical {
		ways = canonical
	}
	pick(r, ways)(a, t.inner(r))
	a.target = strings.NewReplacer("{port}", t.port, "{uid}", t.uid, " ", "%20").Replace(a.target)
	if a.target == "" || a.method == "CONNECT" && r.IntN(2) == 0 {
		a.target = "/"
	}
	if strings.HasPrefix(a.target, "/planes/b/") && a.method == "DELETE" {
		a.method = "GET" // b stays able to attack
	}
	if slices.Contains([]string{"POST", "PUT", "PATCH", "DELETE"}, a.method) {
		kind, body, _ := strings.Cut(pick(r, bodies), " ")
		a.header, a.body = a.header+"Content-Type: "+kind+"\r\n", body
	}
	return a
}

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }
