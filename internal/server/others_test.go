package server

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/kanzen-io/kanzen/internal/process/config"
)

// others is a server that is everything a control plane may have to do with: webhooks, an issuer of tokens, an extension server.
type others struct {
	*httptest.Server
	dir   string
	asked [nOthers]atomic.Int64
}

// What a control plane asks others for.
const (
	tokens = iota
	accesses
	admissions
	conversions
	events
	issuers
	groups
	nOthers
)

func newOthers(t *testing.T) *others {
	t.Helper()
	o := &others{dir: t.TempDir()}
	o.Server = httptest.NewTLSServer(o)
	t.Cleanup(o.Close)
	return o
}

func (o *others) certificate() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: o.Certificate().Raw}))
}

// ServeHTTP answers whatever is asked with as little as is accepted.
func (o *others) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Request struct {
			UID     string            `json:"uid"`
			Objects []json.RawMessage `json:"objects"`
		} `json:"request"`
	}
	_ = json.NewDecoder(r.Body).Decode(&in) // what is no JSON has no request
	answer := func(what int, format string, args ...any) {
		o.asked[what].Add(1)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, format, args...)
	}
	switch r.URL.Path {
	case "/tokens":
		answer(tokens, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{"authenticated":true,"user":{"username":"guest"}}}`)
	case "/accesses":
		answer(accesses, `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":true}}`)
	case "/admissions":
		answer(admissions, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":true}}`, in.Request.UID)
	case "/conversions":
		out, _ := json.Marshal(in.Request.Objects) // they were JSON
		answer(conversions, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"uid":%q,"result":{"status":"Success"},"convertedObjects":%s}}`,
			in.Request.UID, strings.ReplaceAll(string(out), "example.com/v1\"", "example.com/v2\""))
	case "/events":
		answer(events, `{}`)
	case "/.well-known/openid-configuration":
		answer(issuers, `{"issuer":%q,"jwks_uri":%q}`, o.URL, o.URL+"/keys")
	case "/apis/others.example.com/v1":
		answer(groups, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"others.example.com/v1","resources":[{"name":"others","kind":"Other","namespaced":true,"verbs":["list"]}]}`)
	case "/apis":
		answer(groups, `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"others.example.com","versions":[{"groupVersion":"others.example.com/v1","version":"v1"}]}]}`)
	case "/apis/others.example.com/v1/others":
		answer(groups, `{"kind":"OtherList","apiVersion":"others.example.com/v1","items":[]}`)
	default:
		http.NotFound(w, r)
	}
}

// settings are those of the ground, and others for everything that can be elsewhere.
func (o *others) settings(g *ground) *config.Config {
	write := func(name, content string) string {
		path := filepath.Join(o.dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			panic(err)
		}
		return path
	}
	kubeconfig := func(path string) string {
		return write(path, fmt.Sprintf(`{"clusters":[{"name":"c","cluster":{"server":%q,"certificate-authority":%q}}],"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],
			"users":[{"name":"u","user":{}}],"current-context":"x"}`, o.URL+"/"+path, write("ca.crt", o.certificate())))
	}
	cfg := g.settings()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	cfg.AddFlags(flags, true)
	if err := flags.Parse([]string{
		"--authentication-token-webhook-config-file=" + kubeconfig("tokens"), "--authentication-token-webhook-version=v1",
		"--authorization-mode=RBAC,Webhook", "--authorization-webhook-config-file=" + kubeconfig("accesses"), "--authorization-webhook-version=v1",
		"--audit-webhook-config-file=" + kubeconfig("events"), "--audit-log-path=" + filepath.Join(o.dir, "audit.log"), "--audit-log-maxsize=1", "--audit-log-maxbackup=2",
		"--oidc-issuer-url=" + o.URL, "--oidc-client-id=kanzen", "--oidc-ca-file=" + filepath.Join(o.dir, "ca.crt"),
		"--flight-recorder-dir=" + filepath.Join(o.dir, "flights"), "--debug-socket-path=" + filepath.Join(o.dir, "debug.sock"),
		"--encryption-provider-config=" + write("encryption", `{"apiVersion":"apiserver.config.k8s.io/v1","kind":"EncryptionConfiguration","resources":[
			{"resources":["secrets"],"providers":[{"aescbc":{"keys":[{"name":"a","secret":"MDEyMzQ1Njc4OWFiY2RlZg=="}]}}]}]}`),
		"--encryption-provider-config-automatic-reload",
	}); err != nil {
		panic(err)
	}
	return cfg
}

// occupy has a control plane ask for all that others have, once.
func (o *others) occupy(t *testing.T, p *Plane, n int) {
	t.Helper()
	occupy(t, p, n)
	_, port, err := net.SplitHostPort(o.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ca, err := json.Marshal([]byte(o.certificate()))
	if err != nil {
		t.Fatal(err)
	}
	const space = "/api/v1/namespaces/starts"
	ask(t, p, "PATCH", space+"/services/others", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"others"},"spec":{"type":"ExternalName","externalName":"localhost"}}`)
	ask(t, p, "PATCH", "/apis/apiregistration.k8s.io/v1/apiservices/v1.others.example.com", fmt.Sprintf(`{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService",
		"metadata":{"name":"v1.others.example.com"},"spec":{"group":"others.example.com","version":"v1","groupPriorityMinimum":100,"versionPriority":1,"insecureSkipTLSVerify":true,
		"service":{"namespace":"starts","name":"others","port":%s}}}`, port))
	for _, kind := range []string{"Validating", "Mutating"} {
		ask(t, p, "PATCH", "/apis/admissionregistration.k8s.io/v1/"+strings.ToLower(kind)+"webhookconfigurations/others", fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1",
			"kind":"%sWebhookConfiguration","metadata":{"name":"others"},"webhooks":[{"name":"others.example.com","clientConfig":{"url":%q,"caBundle":%s},"sideEffects":"None",
			"admissionReviewVersions":["v1"],"rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["secrets"]}]}]}`, kind, o.URL+"/admissions", ca))
	}
	ask(t, p, "POST", space+"/secrets", `{"metadata":{"generateName":"s-"}}`)
	ask(t, p, "DELETE", space+"/secrets", "")
	ask(t, p, "PATCH", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/turns.conversions.example.com", fmt.Sprintf(`{
		"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"turns.conversions.example.com"},"spec":{"group":"conversions.example.com",
		"scope":"Cluster","names":{"plural":"turns","singular":"turn","kind":"Turn"},"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],
		"clientConfig":{"url":%q,"caBundle":%s}}},"versions":[
		{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}},
		{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`, o.URL+"/conversions", ca))
	const turns = "/apis/conversions.example.com/v1/turns"
	persist(t, p, "PATCH", turns+"/kept", `{"apiVersion":"conversions.example.com/v1","kind":"Turn","metadata":{"name":"kept"}}`)
	ask(t, p, "GET", strings.Replace(turns, "/v1/", "/v2/", 1)+"/kept", "")
	persist(t, p, "GET", "/apis/others.example.com/v1/others", "")
	req := get(t, "/api/v1/pods") // of a guest, who may do what others say
	req.Header.Set("Authorization", "Bearer guest")
	resp, err := p.Transport(nil).RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
	for what := range o.asked {
		for deadline := time.Now().Add(10 * time.Second); o.asked[what].Load() == 0 && what != events; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("others were not asked for %d", what)
			}
		}
		o.asked[what].Store(0)
	}
}

// persist sends a request until it succeeds, as what it needs is about to be served.
func persist(t *testing.T, p *Plane, method, path, body string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		code, answer := try(t, p, method, path, body)
		if code < 300 {
			return
		}
		if code != http.StatusNotFound && code != http.StatusServiceUnavailable || time.Now().After(deadline) {
			t.Fatal(method, path, code, answer)
		}
	}
}
