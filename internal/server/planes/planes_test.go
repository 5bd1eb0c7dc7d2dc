package planes

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/kanzen-io/kanzen/internal/chain/debug"
	"github.com/kanzen-io/kanzen/internal/process"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/server"
	"github.com/kanzen-io/kanzen/internal/server/controlplane"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/memory"
	"github.com/kanzen-io/kanzen/internal/wire/apiclient"
)

// ground is a root control plane with a fleet, without a port.
type ground struct {
	*Fleet
	root  api
	plane *server.Plane // the root
	front http.Handler
	stop  func()
	// killed says that it does not matter how it ends: another process has what it had stored.
	killed atomic.Bool
	class  string // in which have has planes lie

	mu    sync.Mutex
	certs map[string]*x509.Certificate // of the administrators, by plane
}

// settings are those of a root on a data directory.
func settings(dir string) *config.Config {
	cfg := config.Standalone()
	cfg.DataDir, cfg.NoListener, cfg.UnsafeNoFsync, cfg.Planes, cfg.PlanesIdle = dir, true, true, true, 0
	return &cfg
}

// start starts a root and its fleet; they stop with the test, or before by stop.
func start(t testing.TB, cfg *config.Config) *ground {
	t.Helper()
	return startOn(t, cfg, nil)
}

// startOn is start on a log; nil: that of the settings.
func startOn(t testing.TB, cfg *config.Config, db store.DB) *ground {
	t.Helper()
	return startWith(t, cfg, process.Given{DB: db})
}

// startWith is start with parts of the process.
func startWith(t testing.TB, cfg *config.Config, given process.Given) *ground {
	t.Helper()
	own, plane, err := cfg.Validate()
	if err != nil {
		t.Fatal(err)
	}
	on, err := process.OpenWith(context.Background(), own, slog.New(slog.DiscardHandler), debug.NewVerbosity(0), given)
	if err != nil {
		t.Fatal(err)
	}
	g := &ground{Fleet: New(plane, on, server.Seams{}), certs: map[string]*x509.Certificate{}}
	root := server.New(plane, on, server.Seams{Front: g.Front, Certificate: g.Certificate, Planes: g, Transfers: g.ServeTransfer, Admit: g.Admit()})
	if err := root.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := g.Run(ctx, root); err != nil && ctx.Err() == nil && !g.killed.Load() {
			t.Error(err)
		}
	}()
	g.plane = root
	g.root, g.front = through(root.Transport(controlplane.Itself())), g.Front(root)
	g.stop = sync.OnceFunc(func() {
		err := g.Stop()
		cancel()
		<-done
		if err := firstOf(err, root.Stop(), on.Close()); err != nil && !g.killed.Load() {
			t.Error(err)
		}
	})
	t.Cleanup(g.stop)
	select {
	case <-g.listed:
	case <-time.After(time.Minute):
		t.Fatal("the fleet did not come up")
	}
	return g
}

// usage is what is stored with a prefix in the log of the root.
func (g *ground) usage(ctx context.Context, prefix string) (objects, size int64, err error) {
	return usage(ctx, g.on.DB, prefix)
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// create creates a Plane and waits until it is ready.
func (g *ground) create(t testing.TB, name string, spec PlaneSpec) *Plane {
	t.Helper()
	if err := g.tryCreate(t, name, spec); err != nil {
		t.Fatal(err)
	}
	return g.await(t, name, func(p *Plane) bool { return meta.IsStatusConditionTrue(p.Status.Conditions, ready) })
}

func (g *ground) tryCreate(t testing.TB, name string, spec PlaneSpec) error {
	p := map[string]any{"apiVersion": Group + "/" + Version, "kind": "Plane", "metadata": map[string]any{"name": name}, "spec": spec}
	return g.root.Do(t.Context(), http.MethodPost, planesPath, "application/json", p, nil)
}

// await waits until a Plane is as it is to be.
func (g *ground) await(t testing.TB, name string, is func(*Plane) bool) *Plane {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		var p Plane
		if err := g.root.Do(t.Context(), http.MethodGet, planesPath+"/"+name, "", nil, &p); err != nil {
			t.Fatal(err)
		}
		if is(&p) {
			return &p
		}
		if time.Now().After(end) {
			t.Fatalf("plane %s: %+v", name, p.Status)
		}
		time.Sleep(time.Millisecond)
	}
}

// administrator returns the certificate of a plane's administrator.
func (g *ground) administrator(t testing.TB, name string) *x509.Certificate {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.certs[name]; c != nil {
		return c
	}
	var s corev1.Secret
	if err := g.root.Do(t.Context(), http.MethodGet, secretsPath+"/"+kubeconfigSecret(name), "", nil, &s); err != nil {
		t.Fatal(err)
	}
	var k clientcmdv1.Config
	if err := yaml.Unmarshal(s.Data[KubeconfigKey], &k); err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(k.AuthInfos[0].AuthInfo.ClientCertificateData)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	g.certs[name] = cert
	return cert
}

// ask asks a plane as its administrator, or as that of another.
func (g *ground) ask(t testing.TB, as, name, method, path, body string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(method, "https://root"+pathPrefix+name+path, strings.NewReader(body))
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", apiclient.ApplyPatch)
	} else if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	r.TLS = &tls.ConnectionState{}
	if as != "" {
		r.TLS.PeerCertificates = []*x509.Certificate{g.administrator(t, as)}
	}
	w := httptest.NewRecorder()
	g.front.ServeHTTP(w, r.WithContext(t.Context()))
	answer, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(answer)
}

// must asks as the administrator, and decodes the answer, which must be a success.
func (g *ground) must(t testing.TB, name, method, path, body string, out any) {
	t.Helper()
	code, answer := g.ask(t, name, name, method, path, body)
	if code >= 300 {
		t.Fatalf("%s %s of %s: %d %s", method, path, name, code, answer)
	}
	if out != nil {
		if err := json.Unmarshal([]byte(answer), out); err != nil {
			t.Fatal(err)
		}
	}
}

const configMaps = "/api/v1/namespaces/default/configmaps"

// A plane is a control plane of its own: its objects, users and tokens are not those of another, nor of the root.
func TestPlanes(t *testing.T) {
	g := start(t, settings(t.TempDir()))
	g.create(t, "one", PlaneSpec{})
	g.create(t, "other", PlaneSpec{})
	for _, name := range []string{"one", "other"} {
		g.must(t, name, "POST", configMaps, fmt.Sprintf(`{"metadata":{"name":"c"},"data":{"of":%q}}`, name), nil)
	}
	for _, name := range []string{"one", "other"} {
		var c corev1.ConfigMap
		g.must(t, name, "GET", configMaps+"/c", "", &c)
		if c.Data["of"] != name {
			t.Errorf("in %s: %v", name, c.Data)
		}
		var ns corev1.Namespace
		g.must(t, name, "GET", "/api/v1/namespaces/kube-system", "", &ns)
		if g.certs[string(ns.UID)] != nil {
			t.Error("two planes have the same kube-system")
		}
		g.certs[string(ns.UID)] = &x509.Certificate{}
	}
	if code, answer := g.ask(t, "one", "other", "GET", configMaps+"/c", ""); code != http.StatusUnauthorized {
		t.Errorf("the administrator of one in the other: %d %s", code, answer)
	}
	if code, _ := g.ask(t, "", "one", "GET", "/readyz", ""); code != http.StatusOK {
		t.Errorf("health of one that is awake, to nobody: %d", code)
	}
	if code, _ := g.ask(t, "one", "none", "GET", "/readyz", ""); code != http.StatusUnauthorized {
		t.Errorf("a plane that is not there: %d", code)
	}
}

// What it begins with is shared, and can be changed and deleted in each as if it were its own.
func TestBaseIsOwn(t *testing.T) {
	dir := t.TempDir()
	g := start(t, settings(dir))
	g.create(t, "one", PlaneSpec{})
	g.create(t, "other", PlaneSpec{})
	const roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles/"
	g.must(t, "one", "DELETE", "/api/v1/namespaces/default/configmaps/kube-root-ca.crt", "", nil)
	g.must(t, "one", "DELETE", roles+"system:node-problem-detector", "", nil)
	g.must(t, "one", "PATCH", "/api/v1/namespaces/default?fieldManager=t", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default","labels":{"a":"b"}}}`, nil)
	look := func() {
		t.Helper()
		var ns corev1.Namespace
		g.must(t, "one", "GET", "/api/v1/namespaces/default", "", &ns)
		if ns.Labels["a"] != "b" {
			t.Errorf("%v", ns.Labels)
		}
		ns = corev1.Namespace{}
		g.must(t, "other", "GET", "/api/v1/namespaces/default", "", &ns)
		if ns.Labels["a"] != "" {
			t.Errorf("in the other: %v", ns.Labels)
		}
		g.must(t, "other", "GET", roles+"system:node-problem-detector", "", nil)
	}
	look()
	if code, _ := g.ask(t, "one", "one", "GET", roles+"system:node-problem-detector", ""); code != http.StatusNotFound {
		t.Errorf("what was deleted: %d", code)
	}
	// To go to sleep and to wake is no new start, which would make it again.
	for _, name := range []string{"one", "other"} {
		if err := g.find(name).sleep(); err != nil {
			t.Fatal(err)
		}
	}
	look()
	if code, _ := g.ask(t, "one", "one", "GET", roles+"system:node-problem-detector", ""); code != http.StatusNotFound {
		t.Errorf("what was deleted, after it has slept: %d", code)
	}
	g.stop()
	g = start(t, settings(dir))
	look()
	g.must(t, "one", "GET", roles+"system:node-problem-detector", "", nil)
}

// A plane that is deleted leaves nothing behind, and one of the same name finds nothing of it.
func TestDelete(t *testing.T) {
	g := start(t, settings(t.TempDir()))
	first := g.create(t, "one", PlaneSpec{})
	g.must(t, "one", "POST", configMaps, `{"metadata":{"name":"c"}}`, nil)
	if err := g.root.Do(t.Context(), http.MethodDelete, planesPath+"/one", "", nil, nil); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if g.root.Do(t.Context(), http.MethodGet, planesPath+"/one", "", nil, nil) != nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it stays")
		}
	}
	if n, _, err := g.usage(t.Context(), Prefix+string(first.UID)); err != nil || n > 0 {
		t.Errorf("%d keys are left: %v", n, err)
	}
	var secrets corev1.SecretList
	if err := g.root.Do(t.Context(), http.MethodGet, secretsPath, "", nil, &secrets); err != nil || len(secrets.Items) > 0 {
		t.Errorf("secrets are left: %v, %v", secrets.Items, err)
	}
	delete(g.certs, "one")
	g.create(t, "one", PlaneSpec{})
	if code, _ := g.ask(t, "one", "one", "GET", configMaps+"/c", ""); code != http.StatusNotFound {
		t.Errorf("an object of the one before: %d", code)
	}
}

// The limits of a plane are those of its requests and of what it stores, and hold at once when they are changed.
func TestLimits(t *testing.T) {
	g := start(t, settings(t.TempDir()))
	g.create(t, "one", PlaneSpec{})
	make := func(n int) (int, string) {
		return g.ask(t, "one", "one", "POST", configMaps, fmt.Sprintf(`{"metadata":{"name":"c%d"},"data":{"a":%q}}`, n, strings.Repeat("x", 1000)))
	}
	if code, answer := make(0); code != http.StatusCreated {
		t.Fatal(code, answer)
	}
	stored, size, err := g.usage(t.Context(), g.find("one").prefix()+"/")
	if err != nil {
		t.Fatal(err)
	}
	limit := func(l Limits) {
		t.Helper()
		patch := map[string]any{"spec": map[string]any{"limits": l}}
		if err := g.root.Do(t.Context(), http.MethodPatch, planesPath+"/one", apiclient.MergePatch, patch, nil); err != nil {
			t.Fatal(err)
		}
		h := g.find("one")
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			h.mu.Lock()
			same := h.limits == l
			h.mu.Unlock()
			if same || time.Now().After(end) {
				break
			}
		}
	}
	limit(Limits{Objects: stored + 2})
	for n := 1; n <= 2; n++ {
		if code, answer := make(n); code != http.StatusCreated {
			t.Errorf("object %d: %d %s", n, code, answer)
		}
	}
	if code, answer := make(3); code != http.StatusForbidden || !strings.Contains(answer, fmt.Sprintf("it may have %d objects", stored+2)) {
		t.Errorf("one too many: %d %s", code, answer)
	}
	g.must(t, "one", "PATCH", configMaps+"/c1?fieldManager=t", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c1"},"data":{"b":"c"}}`, nil)
	g.find("one").bounds.counted = time.Time{} // as if a second had gone by
	g.must(t, "one", "DELETE", configMaps+"/c1", "", nil)
	if code, answer := make(4); code != http.StatusCreated {
		t.Errorf("in the place of one that is gone: %d %s", code, answer)
	}
	patch := []byte(`{"spec":{"limits":null}}`)
	if err := g.root.Do(t.Context(), http.MethodPatch, planesPath+"/one", apiclient.MergePatch, patch, nil); err != nil {
		t.Fatal(err)
	}
	limit(Limits{Bytes: size + 3*2000, RequestsPerSecond: 2})
	refused := map[int]int{}
	for n := range 20 {
		code, _ := make(10 + n)
		refused[code]++
	}
	if refused[http.StatusTooManyRequests] == 0 || refused[http.StatusCreated] > 4 {
		t.Errorf("20 requests of which 2 are answered in a second: %v", refused)
	}
}

// A plane that nobody uses goes to sleep, and its next request finds what was there.
func TestSleep(t *testing.T) {
	cfg := settings(t.TempDir())
	cfg.PlanesIdle = 200 * time.Millisecond
	g := start(t, cfg)
	g.create(t, "one", PlaneSpec{})
	g.must(t, "one", "POST", configMaps, `{"metadata":{"name":"c"}}`, nil)
	for range 2 {
		g.await(t, "one", func(p *Plane) bool { return p.Status.State == asleep && !g.find("one").awake() })
		if code, _ := g.ask(t, "", "one", "GET", "/api", ""); code != http.StatusUnauthorized || g.find("one").awake() {
			t.Errorf("a request of nobody: %d, awake %v", code, g.find("one").awake())
		}
		g.must(t, "one", "GET", configMaps+"/c", "", nil)
		g.await(t, "one", func(p *Plane) bool { return p.Status.State == awake })
	}
}

const someID = "0b6ff3a2-6b4e-4d8e-9d0e-3f3a5c1f7a55"

// A plane begins with the objects of its template: those that are the same in all are stored once, those with parameters are its own.
func TestTemplate(t *testing.T) {
	g := start(t, settings(t.TempDir()))
	template := map[string]any{
		"apiVersion": Group + "/" + Version, "kind": "PlaneTemplate", "metadata": map[string]any{"name": "team"},
		"spec": map[string]any{
			"parameters": []any{map[string]any{"name": "OWNER"}, map[string]any{"name": "SIZE", "default": "small"}},
			"objects": []any{
				map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "things.example.com"},
					"spec": map[string]any{"group": "example.com", "scope": "Namespaced", "names": map[string]any{"plural": "things", "kind": "Thing"},
						"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
							"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}},
				map[string]any{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "shared"}},
				map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "data"}, "data": map[string]any{"id": someID}},
				map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "team"},
					"data": map[string]any{"owner": "$(OWNER)", "size": "a $(SIZE) one", "other": "$(ELSE)"}},
			},
		},
	}
	if err := g.root.Do(t.Context(), http.MethodPost, strings.TrimSuffix(templatesPath, "/"), "application/json", template, nil); err != nil {
		t.Fatal(err)
	}
	for _, owner := range []string{"ann", `b"ob`} {
		name := "of-" + owner[:1]
		g.create(t, name, PlaneSpec{Template: "team", Parameters: map[string]string{"OWNER": owner}})
		var c corev1.ConfigMap
		g.must(t, name, "GET", configMaps+"/team", "", &c)
		if c.Data["owner"] != owner || c.Data["size"] != "a small one" || c.Data["other"] != "$(ELSE)" {
			t.Errorf("%v", c.Data)
		}
		g.must(t, name, "GET", "/apis/example.com/v1/namespaces/default/things/shared", "", nil)
		g.must(t, name, "GET", configMaps+"/data", "", &c)
		if c.Data["id"] != someID {
			t.Errorf("data that looks like a UID: %v", c.Data)
		}
		g.must(t, name, "POST", "/apis/example.com/v1/namespaces/default/things", `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"own"}}`, nil)
	}
	if n := len(g.bases.byID); n != 1 {
		t.Errorf("%d bases, want one for both planes", n)
	}
	wrong := map[string]any{"apiVersion": Group + "/" + Version, "kind": "PlaneTemplate", "metadata": map[string]any{"name": "wrong"},
		"spec": map[string]any{"objects": []any{map[string]any{"apiVersion": "example.org/v1", "kind": "Other", "metadata": map[string]any{"name": "x"}}}}}
	if err := g.root.Do(t.Context(), http.MethodPost, strings.TrimSuffix(templatesPath, "/"), "application/json", wrong, nil); err != nil {
		t.Fatal(err)
	}
	for name, spec := range map[string]PlaneSpec{
		"no resource serves": {Template: "wrong"}, "asks for the parameter OWNER": {Template: "team"}, "has no parameter COLOUR": {Template: "team", Parameters: map[string]string{"OWNER": "x", "COLOUR": "red"}},
		"not found": {Template: "none"},
	} {
		plane := strings.ReplaceAll(strings.ToLower(name), " ", "-")
		if err := g.tryCreate(t, plane, spec); err != nil {
			t.Fatal(err)
		}
		p := g.await(t, plane, func(p *Plane) bool { return len(p.Status.Conditions) > 0 })
		if c := p.Status.Conditions[0]; c.Status != "False" || !strings.Contains(c.Message, name) {
			t.Errorf("%+v, want %q", c, name)
		}
	}
}

// A plane whose controllers have something to do later wakes for that, also if the server was restarted meanwhile.
func TestWakes(t *testing.T) {
	dir := t.TempDir()
	g := start(t, settings(dir))
	g.create(t, "one", PlaneSpec{})
	g.must(t, "one", "GET", "/api/v1/namespaces", "", nil)
	h := g.find("one")
	g.await(t, "one", func(p *Plane) bool {
		if h.awake() { // it does not sleep if the server itself uses it just now
			h.mu.Lock()
			h.due = time.Now().Add(3 * time.Second)
			h.mu.Unlock()
			if err := h.sleep(); err != nil {
				t.Fatal(err)
			}
		}
		return p.Status.State == asleep && p.Status.Wakes != nil
	})
	g.stop()
	g = start(t, settings(dir))
	g.await(t, "one", func(p *Plane) bool { return p.Status.State == awake && p.Status.Wakes == nil })
}

// The name that a client sends in TLS is as good as a path, and a request on a connection to another plane is not answered.
func TestByName(t *testing.T) {
	cfg := settings(t.TempDir())
	cfg.PlanesDomain = "planes.test"
	g := start(t, cfg)
	g.create(t, "one", PlaneSpec{})
	g.create(t, "other", PlaneSpec{})
	for host, want := range map[string]int{"one.planes.test": http.StatusOK, "ONE.planes.test:6443": http.StatusOK, "other.planes.test": http.StatusMisdirectedRequest,
		"10.0.0.1:6443": http.StatusOK} {
		r := httptest.NewRequest(http.MethodGet, "https://"+host+"/api/v1/namespaces", nil)
		r.TLS = &tls.ConnectionState{ServerName: "one.planes.test", PeerCertificates: []*x509.Certificate{g.administrator(t, "one")}}
		w := httptest.NewRecorder()
		g.front.ServeHTTP(w, r.WithContext(t.Context()))
		if w.Code != want {
			t.Errorf("a request to %s: %d %s", host, w.Code, w.Body)
		}
	}
}

// The administrator's kubeconfig is written anew before its certificate ends, which is seen when a plane wakes.
func TestRenewal(t *testing.T) {
	g := start(t, settings(t.TempDir()))
	g.create(t, "one", PlaneSpec{})
	if err := g.root.Do(t.Context(), http.MethodPatch, secretsPath+"/"+kubeconfigSecret("one"), apiclient.MergePatch, []byte(`{"data":{"value":"e30="}}`), nil); err != nil {
		t.Fatal(err)
	}
	p, err := g.find("one").enter(t.Context())
	if err != nil || !p.Running() {
		t.Fatal(err)
	}
	g.find("one").leave()
	g.await(t, "one", func(p *Plane) bool { return p.Status.State == awake })
	g.must(t, "one", "GET", "/api/v1/namespaces", "", nil)
}

// No more planes are awake than may be: the one that was not used for the longest time makes room, and one in use stays.
func TestAwake(t *testing.T) {
	cfg := settings(t.TempDir())
	cfg.PlanesAwake = 2
	g := start(t, cfg)
	for n := range 4 {
		g.create(t, fmt.Sprint("p", n), PlaneSpec{})
	}
	awake := func() (names string) {
		for n := range 4 {
			if g.find(fmt.Sprint("p", n)).awake() {
				names += fmt.Sprint(n)
			}
		}
		return names
	}
	for n, want := range []string{"0", "01", "12", "23"} {
		g.must(t, fmt.Sprint("p", n), "GET", "/api/v1/namespaces", "", nil)
		if got := awake(); got != want {
			t.Errorf("after plane %d: %s are awake, want %s", n, got, want)
		}
	}
	for _, name := range []string{"p2", "p3"} {
		if _, err := g.find(name).enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer g.find(name).leave()
	}
	if code, answer := g.ask(t, "p0", "p0", "GET", "/api/v1/namespaces", ""); code != http.StatusServiceUnavailable || awake() != "23" {
		t.Errorf("one more than may be in use: %d %s; %s are awake", code, answer, awake())
	}
}

// Servers on one etcd have the same planes: each answers for all, none undoes what another says of them, and a start sweeps nothing away.
func TestServers(t *testing.T) {
	db := memory.New(clock.RealClock{})
	t.Cleanup(func() { _ = db.Close() })
	member := func() *ground {
		cfg := settings(t.TempDir())
		cfg.EtcdServers = []string{"http://given.example:2379"}
		return startOn(t, cfg, db)
	}
	a := member()
	a.create(t, "one", PlaneSpec{})
	a.must(t, "one", "POST", configMaps, `{"metadata":{"name":"c"}}`, nil)
	b := member()
	b.create(t, "two", PlaneSpec{})
	b.must(t, "one", "GET", configMaps+"/c", "", nil)
	b.must(t, "one", "POST", configMaps, `{"metadata":{"name":"d"}}`, nil)
	a.must(t, "one", "GET", configMaps+"/d", "", nil)
	a.must(t, "two", "GET", "/api/v1/namespaces", "", nil)
	var before, after Plane
	for _, p := range []*Plane{&before, &after} {
		if err := a.root.Do(t.Context(), http.MethodGet, planesPath+"/one", "", nil, p); err != nil {
			t.Fatal(err)
		}
		for _, g := range []*ground{a, b} {
			if err := g.keep(t.Context(), "one"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if before.ResourceVersion != after.ResourceVersion {
		t.Errorf("they write what they have to say of a plane in turns: %+v, %+v", before.Status, after.Status)
	}
	b.sweep(t.Context())
	a.must(t, "one", "GET", configMaps+"/c", "", nil)
	a.delete(t, "one", nil)
	for b.find("one") != nil {
		if err := b.pause(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if code, _ := b.ask(t, "one", "one", "GET", configMaps, ""); code != http.StatusUnauthorized {
		t.Errorf("a plane that another server has deleted: %d", code)
	}
}
