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
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kanzen-io/kanzen/internal/config"
	"github.com/kanzen-io/kanzen/internal/controlplane"
	"github.com/kanzen-io/kanzen/internal/debug"
	"github.com/kanzen-io/kanzen/internal/process"
	"github.com/kanzen-io/kanzen/internal/server"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"
)

// ground is a root control plane with a fleet, without a port.
type ground struct {
	*Fleet
	root  api
	front http.Handler
	stop  func()

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
	on, err := process.Open(context.Background(), cfg, slog.New(slog.DiscardHandler), debug.NewVerbosity(0))
	if err != nil {
		t.Fatal(err)
	}
	g := &ground{Fleet: New(cfg, on), certs: map[string]*x509.Certificate{}}
	root := server.New(cfg, on, server.Seams{})
	if err := root.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := g.Run(ctx, root); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	}()
	g.root, g.front = api{root.Transport(controlplane.Itself())}, g.Front(root)
	g.stop = sync.OnceFunc(func() {
		err := g.Stop()
		cancel()
		<-done
		if err := firstOf(err, root.Stop(), on.Close()); err != nil {
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
	return g.root.do(t.Context(), http.MethodPost, planesPath, "application/json", p, nil)
}

// await waits until a Plane is as it is to be.
func (g *ground) await(t testing.TB, name string, is func(*Plane) bool) *Plane {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		var p Plane
		if err := g.root.do(t.Context(), http.MethodGet, planesPath+"/"+name, "", nil, &p); err != nil {
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
	if err := g.root.do(t.Context(), http.MethodGet, secretsPath+"/"+kubeconfigSecret(name), "", nil, &s); err != nil {
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
		r.Header.Set("Content-Type", applyPatch)
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
	if err := g.root.do(t.Context(), http.MethodDelete, planesPath+"/one", "", nil, nil); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if g.root.do(t.Context(), http.MethodGet, planesPath+"/one", "", nil, nil) != nil {
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
	if err := g.root.do(t.Context(), http.MethodGet, secretsPath, "", nil, &secrets); err != nil || len(secrets.Items) > 0 {
		t.Errorf("secrets are left: %v, %v", secrets.Items, err)
	}
	delete(g.certs, "one")
	g.create(t, "one", PlaneSpec{})
	if code, _ := g.ask(t, "one", "one", "GET", configMaps+"/c", ""); code != http.StatusNotFound {
		t.Errorf("an object of the one before: %d", code)
	}
}
