package planes

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	"github.com/kanzen-io/kanzen/internal/server/planes/exports"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/wire/pki"
)

// credential is what a request shows.
type credential struct {
	name      string
	token     string // of the header Authorization
	cert      *tls.Certificate
	header    string // lines
	canonical bool   // it may read the root, so only what is surely for the plane is asked
	knows     bool   // it may read Planes
}

// hostiles is a root with three planes: a; b, which attacks it; and c, which has bound what b exports and shows it just that.
type hostiles struct {
	*ground
	t      *testing.T
	log    string // of audit
	by     []*credential
	secret []string // what no answer may have
	uid    string
}

var hostile = flag.Int("hostile", 3000, "requests of TestHostile; 50,000 take a minute")

// TestHostile sends requests to the plane a with all credentials of the plane b and of users of the root, by every way to write that a
// request is for a. No answer has anything of a, of the root's secrets or of the process; nothing of a has changed; and the audit log has no
// request that a has served.
func TestHostile(t *testing.T) {
	n := *hostile
	seed := randomSeed()
	t.Logf("seed %d", seed)
	h := newHostiles(t)
	before := h.stored()
	about := h.targets()
	codes, codesMu := map[int]int{}, sync.Mutex{}
	var all sync.WaitGroup
	const each = 8
	for worker := range uint64(each) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, worker))
			c := caller{address: h.address(), open: map[string]*connection{}}
			defer c.close()
			for range n / each {
				a := about.make(r, h.by)
				code, answer := c.send(a)
				h.judge(a, code, answer)
				codesMu.Lock()
				codes[code]++
				codesMu.Unlock()
			}
		})
	}
	all.Wait()
	t.Logf("%d requests: %v", n, codes)
	h.unchanged(before)
	h.judgeEvents(n)
	h.must(t, "a", "GET", "/api/v1/namespaces/shop/secrets/s", "", nil)
	h.must(t, "b", "GET", configMaps, "", nil)
}

func newHostiles(t *testing.T) *hostiles {
	cfg := settings(t.TempDir())
	cfg.NoListener, cfg.SecurePort, cfg.PlanesDomain, cfg.Profiling = false, 0, "planes.test", true
	cfg.AuditLog.Path, cfg.TokenAuthFile = filepath.Join(t.TempDir(), "audit"), filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(cfg.TokenAuthFile, []byte("alice-token,alice,1\nreader-token,reader,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g := start(t, cfg)
	h := &hostiles{ground: g, t: t, log: cfg.AuditLog.Path}
	h.uid = string(g.create(t, "a", PlaneSpec{}).UID)
	g.create(t, "b", PlaneSpec{})
	g.create(t, "c", PlaneSpec{})
	for _, mark := range []string{"mark-of-a", "mark-of-c", "mark-of-root"} {
		h.secret = append(h.secret, mark, base64.StdEncoding.EncodeToString([]byte(mark)))
	}
	h.secret = append(h.secret, cfg.DataDir,
		"go_memstats", "process_resident", "kanzen_plane", "runtime.gopark", "PRIVATE KEY")
	h.furnishVictim()
	h.furnishAttacker()
	h.furnishConsumer()
	const authInfo = "/configmaps/kube-system/extension-apiserver-authentication" // a writes its own in the background
	for h.stored()[g.find("a").prefix()+authInfo] == "" {
		if err := g.pause(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	h.by = h.credentials(cfg.DataDir)
	return h
}

func (h *hostiles) address() string { return strings.TrimPrefix(h.url, "https://") }

const things = `{"metadata":{"name":"marks.mark-of-a.example.com"},"spec":{"group":"mark-of-a.example.com","scope":"Cluster","names":{"plural":"marks","singular":"mark","kind":"Mark"},
	"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","description":"mark-of-a"}}}]}}`

// furnishVictim makes objects in a and in the root, with marks that nobody else may see.
func (h *hostiles) furnishVictim() {
	mark := `"labels":{"of":"mark-of-a"},"annotations":{"of":"mark-of-a"}`
	for _, o := range [][2]string{
		{"/api/v1/namespaces", `{"metadata":{"name":"shop",` + mark + `}}`}, {"/api/v1/namespaces", `{"metadata":{"name":"mark-of-a"}}`},
		{"/api/v1/namespaces/shop/configmaps", `{"metadata":{"name":"c",` + mark + `},"data":{"of":"mark-of-a"}}`},
		{"/api/v1/namespaces/shop/secrets", `{"metadata":{"name":"s",` + mark + `},"stringData":{"of":"mark-of-a"}}`},
		{"/api/v1/namespaces/shop/serviceaccounts", `{"metadata":{"name":"s",` + mark + `}}`}, {"/api/v1/nodes", `{"metadata":{"name":"n",` + mark + `}}`},
		{"/api/v1/namespaces/shop/pods", `{"metadata":{"name":"p",` + mark + `},"spec":{"nodeName":"n","containers":[{"name":"c","image":"mark-of-a"}]}}`},
		{"/apis/rbac.authorization.k8s.io/v1/clusterroles", `{"metadata":{"name":"c",` + mark + `}}`}, {"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", things},
	} {
		h.must(h.t, "a", "POST", o[0], o[1], nil)
	}
	for _, o := range [][2]string{
		{"/api/v1/namespaces/default/secrets", `{"metadata":{"name":"s"},"stringData":{"of":"mark-of-root"}}`},
		{"/apis/rbac.authorization.k8s.io/v1/clusterroles", `{"metadata":{"name":"plane-reader"},"rules":[{"apiGroups":["planes.kanzen.io"],"resources":["planes"],"verbs":["get","list","watch"]}]}`},
		{"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"metadata":{"name":"r1"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"plane-reader"},"subjects":[{"kind":"User","name":"reader"}]}`},
		{"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"metadata":{"name":"r2"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"},"subjects":[{"kind":"User","name":"reader"}]}`},
	} {
		if err := h.ground.root.Do(h.t.Context(), http.MethodPost, o[0], "application/json", []byte(o[1]), nil); err != nil {
			h.t.Fatal(err)
		}
	}
}

// furnishAttacker makes what in b leads to the root's port, and a service account that may do everything.
func (h *hostiles) furnishAttacker() {
	_, port, _ := net.SplitHostPort(h.address())
	for _, o := range [][2]string{
		{"/api/v1/nodes", `{"metadata":{"name":"n"}}`},
		{"/api/v1/namespaces/default/services", `{"metadata":{"name":"local"},"spec":{"ports":[{"port":443,"targetPort":` + port + `}]}}`},
		{"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", `{"metadata":{"name":"local","labels":{"kubernetes.io/service-name":"local"}},"addressType":"IPv4",
			"endpoints":[{"addresses":["10.9.9.9"]}],"ports":[{"port":` + port + `}]}`},
		{"/apis/apiregistration.k8s.io/v1/apiservices", `{"metadata":{"name":"v1.evil.example.com"},"spec":{"group":"evil.example.com","version":"v1","groupPriorityMinimum":1,"versionPriority":1,
			"insecureSkipTLSVerify":true,"service":{"name":"local","namespace":"default","port":443}}}`},
		{"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"metadata":{"name":"all"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},
			"subjects":[{"kind":"ServiceAccount","name":"default","namespace":"default"}]}`},
		{"/api/v1/namespaces/kube-system/secrets", `{"metadata":{"name":"bootstrap-token-abcdef"},"type":"bootstrap.kubernetes.io/token","stringData":{"token-id":"abcdef","token-secret":"0123456789abcdef",
			"usage-bootstrap-authentication":"true","usage-bootstrap-signing":"true"}}`},
	} {
		h.must(h.t, "b", "POST", o[0], o[1], nil)
	}
	h.must(h.t, "b", "PATCH", "/api/v1/nodes/n/status?fieldManager=t&force=true", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"},
		"status":{"addresses":[{"type":"InternalIP","address":"127.0.0.1"}],"daemonEndpoints":{"kubeletEndpoint":{"Port":`+port+`}}}}`, nil)
}

// furnishConsumer has b export a kind, with a claim, and c bind it without accepting that.
func (h *hostiles) furnishConsumer() {
	h.must(h.t, "b", "POST", definitionsPath, widgets(""), nil)
	h.must(h.t, "b", "POST", exportsPath, `{"apiVersion":"planes.kanzen.io/v1","kind":"Export","metadata":{"name":"widgets"},"spec":{"resources":[{"group":"example.com","resource":"widgets"}],
		"consumers":{"planes":["c"]},"claims":[`+mapsClaim+`]}}`, nil)
	for _, o := range [][2]string{
		{"/api/v1/namespaces", `{"metadata":{"name":"shop","labels":{"of":"mark-of-c"}}}`},
		{"/api/v1/namespaces/shop/configmaps", `{"metadata":{"name":"c"},"data":{"of":"mark-of-c"}}`},
		{"/api/v1/namespaces/shop/secrets", `{"metadata":{"name":"s"},"stringData":{"of":"mark-of-c"}}`},
		{bindingsPath, `{"apiVersion":"planes.kanzen.io/v1","kind":"Binding","metadata":{"name":"widgets","annotations":{"of":"mark-of-c"}},"spec":{"export":{"plane":"b","name":"widgets"}}}`},
	} {
		h.must(h.t, "c", "POST", o[0], o[1], nil)
	}
	h.becomes(h.t, "c", exports.Bound, metav1.ConditionTrue)
	h.must(h.t, "c", "POST", widgetsPath, widget("c", 1), nil)
	h.must(h.t, "b", "GET", exports.Path+"/widgets/planes/c"+widgetsPath+"/c", "", nil)
}

// credentials are those of b, those that its authorities can make, and those of users of the root.
func (h *hostiles) credentials(dir string) []*credential {
	tokenOf := func(namespace string) string {
		var r authenticationv1.TokenRequest
		h.must(h.t, "b", "POST", "/api/v1/namespaces/"+namespace+"/serviceaccounts/default/token", `{}`, &r)
		return r.Status.Token
	}
	strong, weak := tokenOf("default"), tokenOf("kube-system")
	parts := strings.Split(strong, ".")
	unsigned := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + parts[1] + "."
	var inRoot authenticationv1.TokenRequest
	if err := h.ground.root.Do(h.t.Context(), http.MethodPost, "/api/v1/namespaces/default/serviceaccounts/default/token", "application/json", []byte(`{}`), &inRoot); err != nil {
		h.t.Fatal(err)
	}
	set, err := h.keysOf(h.t.Context(), h.find("b"))
	if err != nil {
		h.t.Fatal(err)
	}
	admin := h.kubeconfigPair("b")
	impersonating := "Impersonate-User: kubernetes-admin\r\nImpersonate-Group: system:masters\r\nImpersonate-Uid: " + h.uid + "\r\n"
	remote := "X-Remote-User: kubernetes-admin\r\nX-Remote-Group: system:masters\r\n"
	root, err := os.ReadFile(filepath.Join(dir, "pki", "admin.kubeconfig"))
	if err != nil {
		h.t.Fatal(err)
	}
	own := []*credential{{name: "b's administrator", cert: admin}, {name: "b's service account", token: "Bearer " + strong}, {name: "a reader of the root", token: "Bearer reader-token", knows: true}}
	return append(slices.Repeat(own, 4), []*credential{
		{name: "b's administrator, impersonating", cert: admin, header: impersonating}, {name: "b's administrator as a front proxy", cert: admin, header: remote},
		{name: "b's service account", token: "Bearer " + strong}, {name: "a service account without rights", token: "Bearer " + weak}, {name: "b's service account, impersonating", token: "Bearer " + strong, header: impersonating},
		{name: "a token that nobody signed", token: "Bearer " + unsigned}, {name: "a bootstrap token", token: "Bearer abcdef.0123456789abcdef"}, {name: "a certificate and a token", cert: admin, token: "Bearer " + weak},
		{name: "a user of a's from b's authority", cert: h.pair(set.ClientAuthority(), "system:apiserver", "system:masters")}, {name: "a node from b's authority", cert: h.pair(set.ClientAuthority(), "system:node:n", "system:nodes")},
		{name: "b's front proxy", cert: h.pair(set.FrontProxyAuthority(), "front-proxy-client"), header: remote},
		{name: "a token of b in a websocket's protocol", header: "Sec-Websocket-Protocol: base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte(strong)) + ", v4.channel.k8s.io\r\n"},
		{name: "nobody"}, {name: "nobody as a front proxy", header: remote}, {name: "nobody, impersonating", header: impersonating}, {name: "basic", token: "Basic YTpi"}, {name: "an empty token", token: "Bearer "},
		{name: "alice of the root", token: "Bearer alice-token"}, {name: "a service account of the root", token: "Bearer " + inRoot.Status.Token},
		{name: "the root's administrator", cert: h.pairIn(root), canonical: true}, {name: "the root's administrator, impersonating", cert: h.pairIn(root), header: impersonating, canonical: true},
	}...)
}

func (h *hostiles) pair(from pki.Pair, name string, groups ...string) *tls.Certificate {
	h.t.Helper()
	authority, err := pki.ParseAuthority(from)
	if err != nil {
		h.t.Fatal(err)
	}
	p, err := authority.NewPair(pki.Subject{Name: name, Groups: groups}, h.on.Clock.Now())
	if err != nil {
		h.t.Fatal(err)
	}
	return h.loaded(p.Cert, p.Key)
}

func (h *hostiles) loaded(cert, key []byte) *tls.Certificate {
	h.t.Helper()
	c, err := tls.X509KeyPair(cert, key)
	if err != nil {
		h.t.Fatal(err)
	}
	return &c
}

func (h *hostiles) kubeconfigPair(plane string) *tls.Certificate {
	h.t.Helper()
	var s corev1.Secret
	if err := h.ground.root.Do(h.t.Context(), http.MethodGet, secretsPath+"/"+kubeconfigSecret(plane), "", nil, &s); err != nil {
		h.t.Fatal(err)
	}
	return h.pairIn(s.Data[KubeconfigKey])
}

func (h *hostiles) pairIn(kubeconfig []byte) *tls.Certificate {
	h.t.Helper()
	var k clientcmdv1.Config
	if err := yaml.Unmarshal(kubeconfig, &k); err != nil {
		h.t.Fatal(err)
	}
	return h.loaded(k.AuthInfos[0].AuthInfo.ClientCertificateData, k.AuthInfos[0].AuthInfo.ClientKeyData)
}

// targets are the paths to ask for.
func (h *hostiles) targets() *targets {
	_, port, _ := net.SplitHostPort(h.address())
	t := &targets{uid: h.uid, port: port}
	for _, root := range []string{"/api", "/apis"} {
		w := h.request(h.t, "b", "GET", "https://root/planes/b"+root, "", "Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		var list apidiscoveryv2.APIGroupDiscoveryList
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil {
			h.t.Fatal(err)
		}
		for _, g := range list.Items {
			for _, v := range g.Versions {
				for _, r := range v.Resources {
					t.collections = append(t.collections, collection{strings.TrimSuffix(root+"/"+g.Name, "/") + "/" + v.Version, r.Resource, r.Scope == apidiscoveryv2.ScopeNamespace})
				}
			}
		}
	}
	if len(t.collections) < 50 {
		h.t.Fatalf("discovery: %v", t.collections)
	}
	var c corev1.ConfigMap
	h.must(h.t, "a", "GET", "/api/v1/namespaces/shop/configmaps/c", "", &c)
	t.revision = c.ResourceVersion
	return t
}

// stored returns what is stored of a, and of it in the root, once its controllers have nothing more to do.
func (h *hostiles) stored() map[string]string {
	h.t.Helper()
	for last := map[string]string(nil); ; {
		now := map[string]string{}
		for _, prefix := range []string{h.find("a").prefix() + "/", "/registry/secrets/" + Namespace + "/a-"} {
			if _, err := h.on.DB.Range(h.t.Context(), kv.Range{Key: prefix, End: kv.PrefixEnd(prefix)}, func(k kv.KeyValue) bool {
				if !strings.Contains(string(k.Key), "/leases/kube-system/apiserver-") { // a renews its own
					now[string(k.Key)] = string(k.Value)
				}
				return true
			}); err != nil {
				h.t.Fatal(err)
			}
		}
		if last != nil && maps.Equal(now, last) {
			return now
		}
		last = now
		time.Sleep(300 * time.Millisecond)
	}
}

func (h *hostiles) unchanged(before map[string]string) {
	h.t.Helper()
	after := h.stored()
	for key, value := range before {
		if now, ok := after[key]; !ok || now != value {
			h.t.Errorf("changed: %s: %q, was %q", key, now, value)
		}
	}
	for key := range after {
		if _, ok := before[key]; !ok {
			h.t.Errorf("new: %s", key)
		}
	}
	if len(before) < 10 {
		h.t.Errorf("only %d keys of the plane were compared", len(before))
	}
}

// judge looks at an answer.
func (h *hostiles) judge(a *attack, code int, answer string) {
	if code == http.StatusInternalServerError && !strings.Contains(a.target, "/watch") || strings.Contains(answer, "panic") {
		h.t.Errorf("%v: %d %.500s", a, code, answer)
	}
	secret := h.secret
	if !a.credential.knows && !strings.Contains(a.target, h.uid) {
		secret = append(slices.Clone(secret), h.uid)
	}
	for _, s := range secret {
		if strings.Contains(answer, s) {
			h.t.Errorf("%v: the answer has %q: %d %.500s", a, s, code, answer)
		}
	}
}

// judgeEvents looks at the audit log: a has served nobody, but for its health, c only what it has bound, and the root only what its users may do.
func (h *hostiles) judgeEvents(n int) {
	data, err := os.ReadFile(h.log)
	if err != nil {
		h.t.Fatal(err)
	}
	counts := map[string]int{}
	for line := range bytes.Lines(data) {
		var e auditv1.Event
		if err := json.Unmarshal(line, &e); err != nil {
			h.t.Fatal(err)
		}
		if e.UserAgent != hostileAgent {
			continue
		}
		plane := e.Annotations[auditPlane]
		counts[plane]++
		served := e.ResponseStatus != nil && e.ResponseStatus.Code < 400
		path, _, _ := strings.Cut(e.RequestURI, "?")
		public := e.ObjectRef == nil && (strings.HasPrefix(path, "/healthz") || strings.HasPrefix(path, "/livez") || strings.HasPrefix(path, "/readyz") || path == "/version")
		switch {
		case !served || plane == "b":
		case plane == "a" && (!public || e.User.Username != "system:anonymous"):
			h.t.Errorf("the plane has served %s", line)
		case plane == "c" && (e.ObjectRef == nil || e.ObjectRef.Resource != "widgets") && !public:
			h.t.Errorf("the plane that has bound widgets has served %s", line)
		case plane == "" && !h.rootMay(&e):
			h.t.Errorf("the root has served %s", line)
		}
	}
	h.t.Logf("audit events by plane: %v", counts)
	if counts["a"] < n/10 || counts["b"] < n/50 || counts[""] < n/50 || counts["c"] == 0 {
		h.t.Error("the requests went elsewhere than they should")
	}
}

// rootMay reports whether the root was right to serve a request of one of its users: the reader's reads, and what anybody may know.
func (h *hostiles) rootMay(e *auditv1.Event) bool {
	switch {
	case e.ObjectRef == nil || strings.HasPrefix(e.ObjectRef.Resource, "selfsubject"):
		return true
	case e.User.Username == "reader":
		return slices.Contains([]string{"get", "list", "watch"}, e.Verb)
	}
	return strings.HasPrefix(e.Annotations["authorization.k8s.io/reason"], "narrowed") // to nothing
}

// caller sends requests, each on a connection that shows its certificate and its server name.
type caller struct {
	address string
	open    map[string]*connection
}

type connection struct {
	*tls.Conn
	in *bufio.Reader
}

func (c *caller) close() {
	for _, conn := range c.open {
		_ = conn.Close()
	}
}

func (c *caller) connect(a *attack) (*connection, string, error) {
	key := fmt.Sprintf("%p %s", a.credential.cert, a.serverName)
	if conn := c.open[key]; conn != nil {
		return conn, key, nil
	}
	config := &tls.Config{InsecureSkipVerify: true, ServerName: a.serverName, NextProtos: []string{"http/1.1"}}
	if a.credential.cert != nil {
		// Also to a server that did not name the authority.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return a.credential.cert, nil }
	}
	raw, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(context.Background(), "tcp", c.address)
	if err != nil {
		return nil, key, err
	}
	conn := &connection{Conn: tls.Client(raw, config)}
	conn.in = bufio.NewReader(conn.Conn)
	c.open[key] = conn
	return conn, key, nil
}

// send returns the code of the answer and all that it says; 0: there is none.
func (c *caller) send(a *attack) (int, string) {
	conn, key, err := c.connect(a)
	if err != nil {
		return 0, ""
	}
	code, answer, goesOn := conn.ask(a)
	if !goesOn {
		_ = conn.Close()
		delete(c.open, key)
	}
	return code, answer
}

// ask sends a request. It reads the beginning of what does not end.
func (c *connection) ask(a *attack) (code int, answer string, goesOn bool) {
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(c, a.text()); err != nil {
		return 0, "", false
	}
	resp, err := http.ReadResponse(c.in, &http.Request{Method: a.method})
	if err != nil {
		return 0, "", false
	}
	defer resp.Body.Close()
	head, err := httputil.DumpResponse(resp, false)
	if err != nil {
		return resp.StatusCode, "", false
	}
	if resp.ContentLength < 0 || resp.StatusCode == http.StatusSwitchingProtocols {
		_ = c.SetDeadline(time.Now().Add(200 * time.Millisecond))
	}
	const most = 256 << 10
	body, err := io.ReadAll(io.LimitReader(resp.Body, most))
	return resp.StatusCode, string(head) + string(body), err == nil && len(body) < most && !resp.Close && resp.StatusCode != http.StatusSwitchingProtocols
}
