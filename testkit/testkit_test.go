package testkit_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/testkit"
)

// needKanzen skips a test where there is no kanzen. `make testkit` says which one to use.
func needKanzen(t *testing.T) {
	t.Helper()
	if os.Getenv("KANZEN") == "" {
		t.Skip("$KANZEN names no binary")
	}
}

// ask makes a request of a server and returns the code and the answer.
func ask(t *testing.T, a testkit.Access, method, path, body string) (int, map[string]any) {
	t.Helper()
	pair, err := tls.X509KeyPair(a.ClientCert, a.ClientKey)
	if err != nil {
		t.Fatal(err)
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(a.CA)
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: authorities}}}
	defer c.CloseIdleConnections()
	r, err := http.NewRequest(method, a.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return answer.StatusCode, out
}

func items(answer map[string]any) int {
	list, _ := answer["items"].([]any)
	return len(list)
}

const configMaps = "/api/v1/namespaces/default/configmaps"

// TestStart starts many servers at once: each has its own objects.
func TestStart(t *testing.T) {
	needKanzen(t)
	t.Parallel()
	var all sync.WaitGroup
	for n := 0; n < 8; n++ {
		all.Add(1)
		go func() {
			defer all.Done()
			begun := time.Now()
			s, err := testkit.New(context.Background())
			if err != nil {
				t.Error(err)
				return
			}
			t.Logf("up after %v", time.Since(begun))
			body := fmt.Sprintf(`{"metadata":{"name":"only-%d"}}`, n)
			if code, answer := ask(t, s.Access, http.MethodPost, configMaps, body); code != http.StatusCreated {
				t.Error(code, answer)
			}
			// kube-root-ca.crt is the other one.
			if _, list := ask(t, s.Access, http.MethodGet, configMaps, ""); items(list) > 2 {
				t.Errorf("a server has objects of others: %v", list)
			}
			for range 2 { // a second Stop does nothing
				if err := s.Stop(); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	all.Wait()
}

// TestKubeconfig has a kubeconfig in a file, which is JSON and therefore YAML.
func TestKubeconfig(t *testing.T) {
	needKanzen(t)
	t.Parallel()
	s := testkit.Start(t)
	for who, path := range map[string]string{"kubernetes-admin": s.Kubeconfig(), "alice": s.User(t, "alice").Kubeconfig()} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var k struct {
			Clusters []struct{ Cluster struct{ Server string } }
			Users    []struct{ Name string }
		}
		if err := json.Unmarshal(text, &k); err != nil || k.Clusters[0].Cluster.Server != s.URL || k.Users[0].Name != who {
			t.Errorf("%v %+v", err, k)
		}
	}
}

func TestConfig(t *testing.T) {
	needKanzen(t)
	t.Parallel()
	s := testkit.Start(t)
	c := testkit.Config[struct {
		Host                      string
		CAData, CertData, KeyData []byte
		QPS                       float32
	}](s)
	if code, _ := ask(t, testkit.Access{URL: c.Host, CA: c.CAData, ClientCert: c.CertData, ClientKey: c.KeyData}, http.MethodGet, configMaps, ""); code != http.StatusOK || c.QPS >= 0 {
		t.Error(code, c.QPS)
	}
	defer func() {
		if recover() == nil {
			t.Error("a type that is no rest.Config is taken")
		}
	}()
	testkit.Config[struct{ Host string }](s)
}

// TestOwnProcess has settings that others do not have.
func TestOwnProcess(t *testing.T) {
	needKanzen(t)
	t.Parallel()
	for name, options := range map[string][]testkit.Option{
		"own process": {testkit.OwnProcess(), testkit.Version("v1.35.2"), testkit.FeatureGate("MutatingAdmissionPolicy", true)},
		"shared":      {testkit.Version("1.35")},
	} {
		t.Run(name, func(t *testing.T) {
			s := testkit.Start(t, options...)
			if _, v := ask(t, s.Access, http.MethodGet, "/version", ""); v["emulationMinor"] != "35" {
				t.Errorf("%v", v)
			}
			bob := s.User(t, "bob", "view")
			if code, answer := ask(t, bob.Access, http.MethodGet, configMaps, ""); code != http.StatusOK {
				t.Error(answer)
			}
		})
	}
}

func TestWrongOptions(t *testing.T) {
	needKanzen(t)
	t.Parallel()
	for want, options := range map[string][]testkit.Option{
		"no-such-flag":                {testkit.Flags("--no-such-flag=1")},
		"NoSuchGate":                  {testkit.FeatureGate("NoSuchGate", true)},
		"1.20":                        {testkit.Version("1.20")},
		"the option Webhooks":         {testkit.Conversion("a.example.com")},
		"no such file":                {testkit.Install(testkit.Path("no-such-file.yaml"))},
		"without apiVersion and kind": {testkit.Install(testkit.YAML("a: b"))},
		"is its CRD installed":        {testkit.Install(testkit.YAML("apiVersion: example.com/v1\nkind: Thing"))},
		"no such file or directory":   {testkit.Binary("/no/such/kanzen")},
		"or no kanzen":                {testkit.Binary("/bin/ls")},
		"did not come up":             {testkit.Binary("/bin/false")},
		"context deadline exceeded":   {func(o *testkit.Options) { o.StartTimeout = time.Nanosecond }},
		"spec.names.kind: Required":   {testkit.Install(testkit.YAML(strings.Replace(things, "kind: Thing", "singular: thing", 1)))},
		"schema":                      {testkit.Install(testkit.YAML(strings.Replace(things, "openAPIV3Schema", "other", 1)))},
	} {
		s, err := testkit.New(context.Background(), options...)
		if err == nil {
			_ = s.Stop()
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "testkit: ") > 1 {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// recorder is a test that fails.
type recorder struct {
	testkit.TB
	failed  bool
	said    strings.Builder
	cleanup []func()
}

func (r *recorder) Helper()                      {}
func (r *recorder) Name() string                 { return "TestOf/A Failure" }
func (r *recorder) Failed() bool                 { return r.failed }
func (r *recorder) Logf(format string, a ...any) { fmt.Fprintf(&r.said, format+"\n", a...) }
func (r *recorder) Error(a ...any)               { fmt.Fprintln(&r.said, a...) }
func (r *recorder) Fatal(a ...any)               { r.failed = true; fmt.Fprintln(&r.said, a...) }
func (r *recorder) Cleanup(f func())             { r.cleanup = append(r.cleanup, f) }
func (r *recorder) end() {
	for n := len(r.cleanup) - 1; n >= 0; n-- {
		r.cleanup[n]()
	}
}

// TestFailure has a failed test show what the server logged, of itself and not of others.
func TestFailure(t *testing.T) {
	needKanzen(t)
	t.Parallel()
	failing := func(fail bool) string {
		r := &recorder{}
		s := testkit.Start(r, testkit.Webhooks(nil, testkit.YAML(strings.ReplaceAll(hook, "timeoutSeconds: 10", "timeoutSeconds: 1"))))
		if code, answer := ask(t, s.Access, http.MethodPost, configMaps, `{"metadata":{"name":"a"}}`); code != http.StatusInternalServerError {
			t.Error(code, answer)
		}
		r.failed = fail
		r.end()
		return r.said.String()
	}
	if said := failing(true); !strings.Contains(said, "testof-a-failure-") || !strings.Contains(said, "1 calls of webhooks got no handler") || !strings.Contains(said, "hook.example.com") {
		t.Errorf("a test that fails says %q", said)
	}
	if said := failing(false); said != "" {
		t.Errorf("a test that passes says %q", said)
	}
}

func TestUsers(t *testing.T) {
	needKanzen(t)
	t.Parallel()
	s := testkit.Start(t, testkit.Install(testkit.YAML(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: own, namespace: kube-system}
rules: [{apiGroups: [""], resources: [pods], verbs: [list]}]
`)))
	for _, c := range []struct {
		role                   string
		mayConfigMaps, mayPods bool // list configmaps of default, pods of kube-system
	}{
		{"", false, false},
		{"view", true, true},
		{"view in default", true, false},
		{"own in kube-system", false, true},
		{"get,list configmaps,pods", true, true},
		{"* configmaps in default", true, false},
		{"list deployments.apps", false, false},
		{"* *", true, true},
	} {
		var roles []string
		if c.role != "" {
			roles = []string{c.role}
		}
		u := s.User(t, "user-"+strings.NewReplacer(" ", "-", "*", "all", ",", "-", ".", "-").Replace(c.role), roles...)
		for path, may := range map[string]bool{configMaps: c.mayConfigMaps, "/api/v1/namespaces/kube-system/pods": c.mayPods} {
			code, answer := ask(t, u.Access, http.MethodGet, path, "")
			if code != http.StatusOK && code != http.StatusForbidden || (code == http.StatusOK) != may {
				t.Errorf("%q, %s: %d %v", c.role, path, code, answer["message"])
			}
		}
	}
	u, err := s.AddUser(context.Background(), "carol", []string{"dev", "ops"})
	if err != nil {
		t.Fatal(err)
	}
	_, who := ask(t, u.Access, http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews", `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`)
	if got := fmt.Sprint(who["status"]); !strings.Contains(got, "[dev ops system:authenticated]") || !strings.Contains(got, "carol") {
		t.Error(got)
	}
	for role, want := range map[string]string{
		"frobnicate":             `there is no role "frobnicate"; the server has admin, cluster-admin, edit, view`,
		"frobnicate in default":  `there is no role "frobnicate"`,
		"get deployments":        "deployments.apps",
		"get configmap":          `there is no resource "configmap"`,
		"get widgets.apps":       `the group apps has no resource "widgets"`,
		"get things.example.com": `there is no group "example.com"`,
		"three words here":       `write "ROLE"`,
		"view in nowhere":        "nowhere",
	} {
		if _, err := s.AddUser(context.Background(), "x", nil, role); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", role, err)
		}
	}
}
