package envtest_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kanzen-io/kanzen/pkg/envtest"
	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

func start(t *testing.T, e *envtest.Environment) *rest.Config {
	t.Helper()
	cfg, err := e.Start()
	t.Cleanup(func() {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// whoami asks the server who a config acts as.
func whoami(t *testing.T, cfg *rest.Config) (string, []string) {
	t.Helper()
	r, err := kubernetes.NewForConfigOrDie(cfg).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Status.UserInfo.Username, r.Status.UserInfo.Groups
}

// Where the server is reached stands in the fields that programs read, and works with nothing else.
func TestSecureServing(t *testing.T) {
	t.Parallel()
	e := &envtest.Environment{}
	e.ControlPlane.GetAPIServer().Address = "127.0.0.1"
	start(t, e)
	api := e.ControlPlane.GetAPIServer()
	if api.Port == "" || api.SecurePort == 0 || api.URL.String() != "https://"+api.HostPort()+"/" || e.ControlPlane.APIURL() != api.URL {
		t.Errorf("port %q and %d, URL %s, host and port %s", api.Port, api.SecurePort, api.URL, api.HostPort())
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(api.CA) {
		t.Fatalf("no certificate in %q", api.CA)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities}}}
	resp, err := client.Get(api.SecureServing.URL("https", "/readyz").String())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Error(resp.Status)
	}
}

// A port that is given is taken, and given back: the next start may take another.
func TestStartAgain(t *testing.T) {
	t.Parallel()
	e := &envtest.Environment{}
	first, err := e.Start()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Start(); err == nil || !strings.Contains(err.Error(), "started already") {
		t.Errorf("a second start: %v", err)
	}
	port := e.ControlPlane.GetAPIServer().Port
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	if api := e.ControlPlane.GetAPIServer(); api.Port != "" || api.Authn != nil {
		t.Errorf("after Stop: port %q, users by %v", api.Port, api.Authn)
	}
	if _, err := e.AddUser(envtest.User{Name: "late"}, nil); err == nil {
		t.Error("a stopped control plane makes users")
	}
	e.Config, e.KubeConfig = nil, nil
	e.ControlPlane.GetAPIServer().Port = port
	second := start(t, e)
	if second.Host != first.Host {
		t.Errorf("served at %s, want %s", second.Host, first.Host)
	}
	whoami(t, second)
}

func TestWhereItCannotListen(t *testing.T) {
	t.Parallel()
	for want, api := range map[string]*envtest.APIServer{
		`SecureServing.Address: "localhost" is no IP address`: {SecureServing: envtest.SecureServing{ListenAddr: envtest.ListenAddr{Address: "localhost"}}},
		"SecurePort is 1 and SecureServing.Port is 2":         {SecurePort: 1, SecureServing: envtest.SecureServing{ListenAddr: envtest.ListenAddr{Port: "2"}}},
	} {
		e := &envtest.Environment{ControlPlane: envtest.ControlPlane{APIServer: api}}
		if _, err := e.Start(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// tokens makes users of bearer tokens.
type tokens struct{ file, called string }

func (a *tokens) Configure(workDir string, args *envtest.Arguments) error {
	a.called += "Configure "
	a.file = filepath.Join(workDir, "tokens")
	args.Set("token-auth-file", a.file)
	return nil
}

func (a *tokens) Start() error {
	a.called += "Start "
	return os.WriteFile(a.file, []byte("secret-of-admin,admin,1,system:masters\nsecret-of-alice,alice,2,dev\n"), 0o600)
}

func (a *tokens) AddUser(user envtest.User, base *rest.Config) (*rest.Config, error) {
	cfg := rest.CopyConfig(base)
	cfg.BearerToken = "secret-of-" + user.Name
	return cfg, nil
}

func (a *tokens) Stop() error {
	a.called += "Stop"
	return nil
}

// Users are made by an Authn of the caller's, if there is one.
func TestAuthn(t *testing.T) {
	t.Parallel()
	users := &tokens{}
	e := &envtest.Environment{ControlPlane: envtest.ControlPlane{APIServer: &envtest.APIServer{SecureServing: envtest.SecureServing{Authn: users}}}}
	cfg, err := e.Start()
	if err != nil {
		t.Fatal(err)
	}
	if name, _ := whoami(t, cfg); name != "admin" || len(cfg.CertData) > 0 {
		t.Errorf("the config acts as %q", name)
	}
	alice, err := e.AddUser(envtest.User{Name: "alice"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if name, groups := whoami(t, alice.Config()); name != "alice" || !slices.Contains(groups, "dev") {
		t.Errorf("%s in %v", name, groups)
	}
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	if users.called != "Configure Start Stop" {
		t.Errorf("called: %s", users.called)
	}
	if _, err := os.Stat(filepath.Dir(users.file)); !os.IsNotExist(err) {
		t.Errorf("its directory is left: %v", err)
	}
}

// A user's config keeps what the base says, and its kubeconfig is whole.
func TestUsers(t *testing.T) {
	t.Parallel()
	e := &envtest.Environment{}
	start(t, e)
	u, err := e.AddUser(envtest.User{Name: "bob", Groups: []string{"ops"}}, &rest.Config{QPS: 7, UserAgent: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	if c := u.Config(); c.QPS != 7 || c.UserAgent != "mine" {
		t.Errorf("%v", c)
	}
	text, err := u.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	if name, groups := whoami(t, cfg); name != "bob" || !slices.Equal(groups, []string{"ops", "system:authenticated"}) {
		t.Errorf("%s in %v", name, groups)
	}
	admin, err := clientcmd.RESTConfigFromKubeConfig(e.KubeConfig)
	if err != nil {
		t.Fatal(err)
	}
	if _, groups := whoami(t, admin); !slices.Contains(groups, "system:masters") {
		t.Error(groups)
	}
}

func TestKubeCtl(t *testing.T) {
	t.Parallel()
	fake := filepath.Join(t.TempDir(), "kubectl")
	if err := os.WriteFile(fake, []byte("#!/bin/sh\necho \"$2\"; cat \"${1#--kubeconfig=}\" >&2\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	e := &envtest.Environment{ControlPlane: envtest.ControlPlane{KubectlPath: fake}}
	if _, _, err := e.ControlPlane.KubeCtl().Run("get"); err == nil {
		t.Error("a kubectl without a server")
	}
	start(t, e)
	stdout, stderr, err := e.ControlPlane.KubeCtl().Run("get")
	if err != nil {
		t.Fatal(err)
	}
	var out, kubeconfig bytes.Buffer
	_, _ = out.ReadFrom(stdout)
	_, _ = kubeconfig.ReadFrom(stderr)
	cfg, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig.Bytes())
	if err != nil || out.String() != "get\n" {
		t.Fatalf("%q, %v", out.String(), err)
	}
	if name, _ := whoami(t, cfg); name != "admin" {
		t.Error(name)
	}
}

// The version that others download is the one that the server behaves as, if it would be downloaded.
func TestVersionInPlaceOfDownload(t *testing.T) {
	t.Parallel()
	for download, want := range map[bool]string{true: "36", false: "37"} {
		env := &envtest.Environment{DownloadBinaryAssets: download, DownloadBinaryAssetsVersion: "v1.36.0"}
		c, err := env.Start()
		if err != nil {
			t.Fatal(err)
		}
		v, err := kubernetes.NewForConfigOrDie(c).Discovery().ServerVersion()
		if err != nil || v.EmulationMinor != want {
			t.Errorf("download %v: %+v, %v", download, v, err)
		}
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	}
}

func TestArguments(t *testing.T) {
	t.Parallel()
	api := &envtest.APIServer{}
	for _, c := range []struct {
		change func(a *envtest.Arguments)
		want   string
	}{
		{func(*envtest.Arguments) {}, "--disable-admission-plugins=ServiceAccount"},
		{func(a *envtest.Arguments) { a.Append("disable-admission-plugins", "A") }, "--disable-admission-plugins=ServiceAccount --disable-admission-plugins=A"},
		{func(a *envtest.Arguments) { a.AppendNoDefaults("disable-admission-plugins", "A") }, "--disable-admission-plugins=A"},
		{func(a *envtest.Arguments) {
			a.Set("x", "1").AppendNoDefaults("x", "2").Disable("disable-admission-plugins")
		}, "--x=1 --x=2"},
		{func(a *envtest.Arguments) { a.Disable("disable-admission-plugins").Enable("x") }, "--x"},
	} {
		api = &envtest.APIServer{}
		c.change(api.Configure())
		if got := strings.Join(api.Configure().AsStrings(), " "); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: not-installed}
`

// CRDs come from files and directories, other objects in them do not; missing paths are an error if that is wanted.
func TestCRDs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "crds.yaml"), []byte(definition), 0o600); err != nil {
		t.Fatal(err)
	}
	e := &envtest.Environment{CRDDirectoryPaths: []string{dir, filepath.Join(dir, "missing")}}
	cfg := start(t, e)
	k := kubernetes.NewForConfigOrDie(cfg)
	if _, err := k.Discovery().ServerResourcesForGroupVersion("example.com/v1"); err != nil || len(e.CRDs) != 1 {
		t.Errorf("%d CRDs, %v", len(e.CRDs), err)
	}
	if _, err := k.CoreV1().Namespaces().Get(t.Context(), "not-installed", metav1.GetOptions{}); err == nil {
		t.Error("a namespace was installed")
	}
	if err := envtest.UninstallCRDs(cfg, envtest.CRDInstallOptions{Paths: []string{dir}}); err != nil {
		t.Error(err)
	}
	strict := &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join(dir, "missing")}, ErrorIfCRDPathMissing: true}
	_, err := strict.Start()
	if err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a missing path: %v", err)
	}
	if err := strict.Stop(); err != nil {
		t.Error(err)
	}
}

// Webhooks that are services are directed to the test, with a certificate that is valid for it.
func TestWebhooksAreDirected(t *testing.T) {
	t.Parallel()
	path, none := "/validate", admissionv1.SideEffectClassNone
	e := &envtest.Environment{WebhookInstallOptions: envtest.WebhookInstallOptions{ValidatingWebhooks: []*admissionv1.ValidatingWebhookConfiguration{{
		ObjectMeta: metav1.ObjectMeta{Name: "checks"},
		Webhooks: []admissionv1.ValidatingWebhook{{Name: "check.example.com", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Name: "hooks", Namespace: "system", Path: &path}}}},
	}}}}
	cfg := start(t, e)
	o := &e.WebhookInstallOptions
	got, err := kubernetes.NewForConfigOrDie(cfg).AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), "checks", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c := got.Webhooks[0].ClientConfig
	if c.Service != nil || c.URL == nil || !strings.HasPrefix(*c.URL, "https://127.0.0.1:") || !strings.HasSuffix(*c.URL, "/validate") || !bytes.Equal(c.CABundle, o.LocalServingCAData) {
		t.Errorf("%+v", c)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(o.LocalServingCertDir, "tls.crt"), filepath.Join(o.LocalServingCertDir, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil || leaf.VerifyHostname("127.0.0.1") != nil {
		t.Error(err, leaf.VerifyHostname("127.0.0.1"))
	}
}

// An existing cluster is used and left as it is.
func TestExistingCluster(t *testing.T) {
	t.Parallel()
	cluster := kanzentest.Start(t, kanzentest.Listen())
	yes := true
	e := &envtest.Environment{UseExistingCluster: &yes, Config: cluster.SocketConfig()}
	if _, err := e.Start(); err != nil {
		t.Fatal(err)
	}
	if e.Server() != nil {
		t.Error("a server was started")
	}
	if err := e.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := kubernetes.NewForConfigOrDie(cluster.Config()).CoreV1().Namespaces().List(context.Background(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}
