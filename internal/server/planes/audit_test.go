package planes

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// auditPolicy records nothing about service accounts, and bodies of ConfigMaps.
const auditPolicy = `{"apiVersion":"audit.k8s.io/v1","kind":"Policy","rules":[
	{"level":"None","userGroups":["system:serviceaccounts"]},
	{"level":"Request","resources":[{"resources":["configmaps"]}]},{"level":"Metadata","omitStages":["RequestReceived"]}]}`

// audited starts a root with an audit log, and returns a func that reads its events.
func audited(t *testing.T, dir string) (*ground, func() []auditv1.Event) {
	t.Helper()
	cfg := settings(dir)
	cfg.AuditPolicyFile, cfg.AuditLog.Path = filepath.Join(t.TempDir(), "policy"), filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(cfg.AuditPolicyFile, []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	return start(t, cfg), func() (events []auditv1.Event) {
		t.Helper()
		time.Sleep(20 * time.Millisecond) // the log may write the first stage of a request 10 ms later
		data, err := os.ReadFile(cfg.AuditLog.Path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(data) {
			var e auditv1.Event
			if err := json.Unmarshal(line, &e); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			events = append(events, e)
		}
		return events
	}
}

// about returns the events with an audit ID.
func about(events []auditv1.Event, id string) (out []auditv1.Event) {
	for _, e := range events {
		if string(e.AuditID) == id {
			out = append(out, e)
		}
	}
	return out
}

// request makes a request to the root's port, with a plane's administrator's certificate unless as is "".
func (g *ground) request(t *testing.T, as, method, url, body string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, url, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for n := 0; n < len(header); n += 2 {
		r.Header.Set(header[n], header[n+1])
	}
	r.TLS = &tls.ConnectionState{}
	if as != "" {
		r.TLS.PeerCertificates = append(r.TLS.PeerCertificates, g.administrator(t, as))
	}
	w := httptest.NewRecorder()
	g.front.ServeHTTP(w, r.WithContext(t.Context()))
	return w
}

// The audit log tells of each request to a plane which plane it was for, also of those that were refused before they came to it.
func TestAudit(t *testing.T) {
	g, events := audited(t, t.TempDir())
	g.create(t, "one", PlaneSpec{})
	at := "https://root" + pathPrefix + "one"
	for name, c := range map[string]struct {
		as, method, url, body string
		header                []string
		code, events          int
		plane, uri, user      string
		level                 auditv1.Level
	}{
		"a write": {as: "one", method: "POST", url: at + configMaps + "?fieldManager=x", body: `{"metadata":{"name":"c"}}`, code: 201, events: 2,
			plane: "one", uri: configMaps + "?fieldManager=x", user: "kubernetes-admin", level: auditv1.LevelRequest},
		"a read": {as: "one", method: "GET", url: at + "/api/v1/pods", code: 200, events: 1, plane: "one", uri: "/api/v1/pods", user: "kubernetes-admin", level: auditv1.LevelMetadata},
		"a page": {as: "one", method: "GET", url: at + "/version", code: 200, events: 1, plane: "one", uri: "/version", user: "kubernetes-admin", level: auditv1.LevelMetadata},
		"an ID of the client's own": {as: "one", method: "GET", url: at + "/api/v1/nodes", header: []string{"Audit-Id", "mine"}, code: 200, events: 1,
			plane: "one", uri: "/api/v1/nodes", user: "kubernetes-admin", level: auditv1.LevelMetadata},
		"no credentials": {method: "GET", url: at + "/api/v1/pods", code: 401, events: 1, plane: "one", uri: "/api/v1/pods", level: auditv1.LevelMetadata},
		"a plane that does not exist": {method: "GET", url: "https://root/planes/none/api/v1/pods", header: []string{"Authorization", "Bearer x"}, code: 401, events: 1,
			plane: "none", uri: "/api/v1/pods", level: auditv1.LevelMetadata},
		"the root": {method: "GET", url: "https://root/api/v1/pods", code: 401, events: 1, uri: "/api/v1/pods", level: auditv1.LevelMetadata},
		"impersonation": {as: "one", method: "GET", url: at + "/api/v1/pods", header: []string{"Impersonate-User", "quiet"}, code: 403, events: 1,
			plane: "one", uri: "/api/v1/pods", user: "kubernetes-admin", level: auditv1.LevelMetadata},
	} {
		w := g.request(t, c.as, c.method, c.url, c.body, c.header...)
		got := about(events(), w.Header().Get("Audit-Id"))
		if w.Code != c.code || len(got) != c.events {
			t.Errorf("%s: %d %s, events %+v", name, w.Code, w.Body, got)
			continue
		}
		for _, e := range got {
			if e.Annotations[auditPlane] != c.plane || e.RequestURI != c.uri || e.User.Username != c.user || e.Level != c.level {
				t.Errorf("%s: %+v", name, e)
			}
			if _, ok := e.Annotations[auditPlane]; ok != (c.plane != "") {
				t.Errorf("%s: annotations %v", name, e.Annotations)
			}
		}
	}
	for _, e := range events() { // that were made for the plane by the server itself are of the plane, too
		if strings.HasPrefix(e.RequestURI, planesPath) && e.Annotations[auditPlane] != "" {
			t.Errorf("a request of the root: %+v", e)
		}
	}
}

// The users of a plane choose their names and its policies, and yet cannot keep a request out of the log or have it be one of another plane.
func TestForgedAudit(t *testing.T) {
	g, events := audited(t, t.TempDir())
	g.create(t, "one", PlaneSpec{})
	g.must(t, "one", "POST", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", `{"metadata":{"name":"kanzen.io"},"spec":{"auditAnnotations":[{"key":"plane",
		"valueExpression":"'other'"}],"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["*"],"resources":["configmaps"]}]}}}`, nil)
	g.must(t, "one", "POST", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
		`{"metadata":{"name":"kanzen.io"},"spec":{"policyName":"kanzen.io","validationActions":["Audit"]}}`, nil)
	g.must(t, "one", "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"metadata":{"name":"all"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io",
		"kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"kind":"ServiceAccount","name":"default","namespace":"default"}]}`, nil)
	var token authenticationv1.TokenRequest
	g.must(t, "one", "POST", "/api/v1/namespaces/default/serviceaccounts/default/token", `{}`, &token)
	for n := range 3 {
		w := g.request(t, "", "POST", "https://root/planes/one"+configMaps, fmt.Sprintf(`{"metadata":{"name":"c%d","annotations":{%q:"other"}}}`, n, auditPlane),
			"Authorization", "Bearer "+token.Status.Token, "X-Kanzen-Plane", "other")
		got := about(events(), w.Header().Get("Audit-Id"))
		if w.Code != http.StatusCreated || len(got) != 2 {
			t.Fatalf("%d %s, events %+v", w.Code, w.Body, got)
		}
		for _, e := range got {
			if e.Annotations[auditPlane] != "one" || e.Level != auditv1.LevelRequest || e.User.Username != "system:serviceaccount:default:default" {
				t.Errorf("%+v", e)
			}
		}
	}
}

// A request beyond a plane's limits is audited, and a plane that slept is audited again.
func TestAuditGoesOn(t *testing.T) {
	g, events := audited(t, t.TempDir())
	g.create(t, "one", PlaneSpec{Limits: Limits{RequestsPerSecond: 1000}})
	g.must(t, "one", "GET", "/api/v1/pods", "", nil)
	if err := g.find("one").sleep(); err != nil {
		t.Fatal(err)
	}
	w := g.request(t, "one", "GET", "https://root/planes/one/api/v1/pods", "")
	if got := about(events(), w.Header().Get("Audit-Id")); len(got) != 1 || got[0].Annotations[auditPlane] != "one" {
		t.Errorf("after it slept: %+v", got)
	}
	h := g.find("one")
	h.limit(Limits{RequestsPerSecond: 1})
	for w.Code != http.StatusTooManyRequests {
		w = g.request(t, "one", "GET", "https://root/planes/one/api/v1/pods", "")
	}
	if got := about(events(), w.Header().Get("Audit-Id")); len(got) != 1 || got[0].Annotations[auditPlane] != "one" || got[0].ResponseStatus.Code != http.StatusTooManyRequests {
		t.Errorf("beyond its limit: %+v", got)
	}
}
