package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"github.com/kanzen-io/kanzen/internal/process"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/server/controlplane"
	"github.com/kanzen-io/kanzen/internal/wire/pki/pkitest"
)

func TestServerNames(t *testing.T) {
	aCert, aKey := pkitest.Server(t, "a.example.com").Write(t, t.TempDir())
	wildCert, wildKey := pkitest.Server(t, "*.example.com").Write(t, t.TempDir())
	namedCert, namedKey := pkitest.Server(t, "other.test").Write(t, t.TempDir())
	s := listening(t, func(c *config.Config) {
		c.TLSSNICertKeys = []string{wildCert + "," + wildKey, aCert + "," + aKey, namedCert + "," + namedKey + ":chosen.test,*.chosen.test"}
	})
	for name, want := range map[string]string{
		"a.example.com": "a.example.com", "A.Example.com": "a.example.com", "b.example.com": "*.example.com", "b.c.example.com": "",
		"chosen.test": "other.test", "x.chosen.test": "other.test", "other.test": "", "": "",
	} {
		conn, err := tls.Dial("tcp", s.listener.Address(), &tls.Config{InsecureSkipVerify: true, ServerName: name})
		if err != nil {
			t.Fatal(err)
		}
		got := conn.ConnectionState().PeerCertificates[0].Subject.CommonName
		_ = conn.Close()
		if want == "" && strings.Contains(got, "example") || want == "" && got == "other.test" || want != "" && got != want {
			t.Errorf("for %q: %q, want %q", name, got, want)
		}
	}
}

func TestZpages(t *testing.T) {
	s := startWith(t, func(c *config.Config) { c.Flags = map[string]string{"b": "2", "a": "1"} })
	s.base.process.Verbosity.Set(1)
	if text := string(do(t, s, "GET", "/flagz", "", "", nil, 200)); !strings.HasPrefix(text, "\napiserver flagz\n") || !strings.HasSuffix(text, "a: 1\nb: 2\n") {
		t.Error(text)
	}
	if text := string(do(t, s, "GET", "/statusz", "", "text/plain", nil, 200)); !strings.Contains(text, "Up  0 hr 00 min") {
		t.Error(text)
	}
	var z struct {
		metav1.TypeMeta
		Paths []string
	}
	if err := json.Unmarshal(do(t, s, "GET", "/statusz", "", "application/json;v=v1beta1;g=config.k8s.io;as=Statusz", nil, 200), &z); err != nil || z.Kind != "Statusz" || len(z.Paths) == 0 {
		t.Errorf("%+v, %v", z, err)
	}
	do(t, s, "GET", "/flagz", "", "application/yaml;v=v1beta1;g=config.k8s.io;as=Flagz", nil, 200)
	do(t, s, "GET", "/statusz", "", "application/json", nil, 406)
	do(t, s, "GET", "/statusz", "", "application/json;v=v9;g=config.k8s.io;as=Statusz", nil, 406)

	if s.base.process.Verbosity.Level() != slog.LevelInfo || s.base.process.Verbosity.LogsAccess() {
		t.Error("verbosity 1")
	}
	do(t, s, "PUT", "/debug/flags/v", "", "", []byte("4"), 200)
	if s.base.process.Verbosity.Level() != slog.LevelDebug || !s.base.process.Verbosity.LogsAccess() {
		t.Error("verbosity 4")
	}
	do(t, s, "PUT", "/debug/flags/v", "", "", []byte("x"), 400)
	do(t, s, "GET", "/debug/flags/v", "", "", nil, 406)
	do(t, s, "PUT", "/debug/flags/w", "", "", []byte("1"), 404)
}

func TestBuildInfo(t *testing.T) {
	s := startWith(t, func(c *config.Config) { c.ReportedVersion = "v1.36.3-x" })
	if text := string(do(t, s, "GET", "/metrics", "", "", nil, 200)); !strings.Contains(text, "\nkubernetes_build_info{") || !strings.Contains(text, `git_version="v1.36.3-x"`) {
		t.Error("no kubernetes_build_info")
	}
	if text := string(do(t, s, "GET", "/version", "", "", nil, 200)); !strings.Contains(text, `"v1.36.3-x"`) {
		t.Error(text)
	}
}

func TestZpagesOff(t *testing.T) {
	s := startWith(t, func(c *config.Config) { c.FeatureGates = []string{"ComponentFlagz=false"} })
	do(t, s, "GET", "/flagz", "", "", nil, 404)
	do(t, s, "GET", "/statusz", "", "text/plain", nil, 200)
}

// awaitReadyz returns when /readyz answers 200: registration goes on for a moment after the start.
func awaitReadyz(t *testing.T, s *server) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
		if w.Code == http.StatusOK {
			return
		}
	}
	t.Fatal("not ready")
}

func TestMetricsOfRequests(t *testing.T) {
	s := start(t)
	do(t, s, "GET", "/api/v1/namespaces/default/configmaps", "", "", nil, 200)
	do(t, s, "GET", "/api/v1/componentstatuses", "", "", nil, 200)
	awaitReadyz(t, s)
	// Unauthenticated clients must not be able to fill the memory with names.
	req := httptest.NewRequest("GET", "/apis/made.up/v1/things/x/sub", nil)
	s.handler.ServeHTTP(httptest.NewRecorder(), req)
	// The default objects of a cluster are in force once their watch events
	// have arrived, one after the other.
	const divided = `apiserver_flowcontrol_nominal_limit_seats{priority_level="workload-low"} 245`
	var text string
	eventually(t, func() bool {
		text = string(do(t, s, "GET", "/metrics", "", "", nil, 200))
		return strings.Contains(text, divided)
	})
	for _, want := range []string{
		`apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="configmaps",scope="namespace",subresource="",verb="LIST",version="v1"} 1`,
		`apiserver_response_sizes_count{component="apiserver",group="",resource="configmaps"`, `apiserver_request_sli_duration_seconds_count{component="apiserver",group="",resource="configmaps"`,
		`apiserver_request_filter_duration_seconds_count{filter="authorization"}`,
		`apiserver_current_inflight_requests{request_kind="readOnly"}`, `apiserver_current_inqueue_requests{request_kind="mutating"} 0`,
		`apiserver_requested_deprecated_apis{group="",removed_release="",resource="componentstatuses",subresource="",version="v1"} 1`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(text, "made.up") {
		t.Error("a name that a stranger made up is in the metrics")
	}
	if text := string(do(t, s, "GET", "/metrics/slis", "", "", nil, 200)); !strings.Contains(text, `kubernetes_healthcheck{name="etcd",type="readyz"} 1`) {
		t.Error(text)
	}
	do(t, s, "DELETE", "/metrics", "", "", nil, 200)
}

// TestMetricsOfEqualRanges: whoever makes a second ServiceCIDR of a range takes the metrics from nobody.
func TestMetricsOfEqualRanges(t *testing.T) {
	s := startWith(t, func(*config.Config) {})
	const at = "/apis/networking.k8s.io/v1/servicecidrs"
	for _, name := range []string{"one", "two"} {
		do(t, s, "POST", at, "application/json", "", fmt.Appendf(nil, `{"apiVersion":"networking.k8s.io/v1","kind":"ServiceCIDR","metadata":{"name":%q},"spec":{"cidrs":["10.55.0.0/24"]}}`, name), 201)
		status := []byte(`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"x","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
		do(t, s, "PATCH", at+"/"+name+"/status", "application/merge-patch+json", "", status, 200)
	}
	const metric = `kube_apiserver_clusterip_allocator_available_ips{cidr="10.55.0.0/24"} 254`
	if page := string(do(t, s, "GET", "/metrics", "", "", nil, 200)); strings.Count(page, metric) != 1 {
		t.Errorf("%s is there %d times", metric, strings.Count(page, metric))
	}
}

// TestProfilePaths has what kube-apiserver answers below /debug/pprof.
func TestProfilePaths(t *testing.T) {
	s := startWith(t, func(*config.Config) {})
	for path, want := range map[string]int{
		"/debug/pprof": 302, "/debug/pprof/": 200, "/debug/pprof/goroutine": 200, "/debug/pprof/nope": 404, "/debug/pprofx": 404,
	} {
		if body := do(t, s, "GET", path, "", "text/plain", nil, want); want == 302 && !strings.Contains(string(body), `"/debug/pprof/"`) {
			t.Errorf("%s leads to %s", path, body)
		}
	}
}

func TestDebugSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "debug")
	s := startWith(t, func(c *config.Config) { c.DebugSocketPath = path })
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://server/debug/pprof/cmdline")
	for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); resp, err = client.Get("http://server/debug/pprof/cmdline") {
	}
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 {
		t.Error(resp.Status, err)
	}
	_ = s
}

// A user has changed a suggested object and deleted a mandatory one, and an old
// release has left one behind.
func TestUpkeepOfFlowControl(t *testing.T) {
	s := start(t)
	ctx := request.WithUser(t.Context(), controlplane.Itself())
	levels, schemas := s.base.flowEndpoints()
	u, err := s.base.flowUpkeep()
	if err != nil || len(u.WantedLevels) != 8 || len(u.WantedSchemas) == 0 {
		t.Fatal(err, len(u.WantedLevels), len(u.WantedSchemas))
	}
	const path = "/apis/flowcontrol.apiserver.k8s.io/v1/"
	patch := func(what, body string) {
		do(t, s, "PATCH", path+what, "application/merge-patch+json", "", []byte(body), 200)
	}
	patch("prioritylevelconfigurations/workload-low", `{"spec":{"limited":{"nominalConcurrencyShares":7}}}`)
	patch("prioritylevelconfigurations/workload-high", `{"metadata":{"annotations":{"apf.kubernetes.io/autoupdate-spec":"false"}},"spec":{"limited":{"nominalConcurrencyShares":7}}}`)
	patch("prioritylevelconfigurations/catch-all", `{"metadata":{"annotations":{"apf.kubernetes.io/autoupdate-spec":"false"}}}`)
	patch("prioritylevelconfigurations/exempt", `{"spec":{"exempt":{"nominalConcurrencyShares":3}}}`)
	do(t, s, "DELETE", path+"flowschemas/probes", "", "", nil, 200)
	old, err := schemas.GetObject(ctx, "", "service-accounts")
	if err != nil {
		t.Fatal(err)
	}
	left := &flowcontrolv1.FlowSchema{Spec: *old.(*flowcontrolv1.FlowSchema).Spec.DeepCopy()}
	left.Name, left.Annotations = "of-an-old-release", map[string]string{flowcontrolv1.AutoUpdateAnnotationKey: "true"}
	if _, err := s.base.itself.Create(ctx, inprocess.Target{Resource: schemas.GVR}, left); err != nil {
		t.Fatal(err)
	}
	shares := func(name string) int32 {
		obj := mustGet(t, ctx, levels, name).(*flowcontrolv1.PriorityLevelConfiguration)
		if obj.Spec.Exempt != nil {
			return *obj.Spec.Exempt.NominalConcurrencyShares
		}
		return *obj.Spec.Limited.NominalConcurrencyShares
	}
	state := func() string {
		_, probes := schemas.GetObject(ctx, "", "probes")
		_, old := schemas.GetObject(ctx, "", "of-an-old-release")
		return fmt.Sprintf("%d %d %d %s %t %t", shares("workload-low"), shares("workload-high"), shares("exempt"),
			mustGet(t, ctx, levels, "catch-all").GetAnnotations()[flowcontrolv1.AutoUpdateAnnotationKey], probes == nil, apierrors.IsNotFound(old))
	}
	const want = "100 7 3 true true true"
	// What another part of the server writes between a look and a write is left for the next look.
	for end := time.Now().Add(30 * time.Second); state() != want; {
		if err := u.Once(ctx); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(end) {
			t.Fatalf("%s, not %s", state(), want)
		}
	}
}

// A maintained object is restored as soon as it is changed, not a minute later.
func TestUpkeepFollowsChanges(t *testing.T) {
	s := start(t)
	const path = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations/workload-low"
	do(t, s, "PATCH", path, "application/merge-patch+json", "", []byte(`{"spec":{"limited":{"nominalConcurrencyShares":7}}}`), 200)
	eventually(t, func() bool {
		return strings.Contains(string(do(t, s, "GET", path, "", "", nil, 200)), `"nominalConcurrencyShares":100`)
	})
}

// hurrying is a clock by which each look at it takes a second.
type hurrying struct {
	clock.RealClock
	looks atomic.Int64
}

// Now is part of clock.PassiveClock.
func (h *hurrying) Now() time.Time {
	return h.RealClock.Now().Add(time.Duration(h.looks.Add(1)) * time.Second)
}

// Whether a flow schema's level exists is written when that changes, and not again because two goroutines look.
func TestConditionsOfFlowSchemas(t *testing.T) {
	cfg := config.Standalone()
	cfg.DataDir, cfg.UnsafeNoFsync, cfg.NoListener, cfg.Controllers = t.TempDir(), true, true, nil
	on, plane := planeOf(t, &cfg, process.Given{Clock: &hurrying{}})
	s := running(t, plane, on.Close)
	ctx := request.WithUser(t.Context(), controlplane.Itself())
	const schemas = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
	list := func() (l flowcontrolv1.FlowSchemaList) {
		if err := json.Unmarshal(do(t, s, "GET", schemas, "", "", nil, 200), &l); err != nil {
			t.Fatal(err)
		}
		return l
	}
	eventually(t, func() bool {
		return !slices.ContainsFunc(list().Items, func(f flowcontrolv1.FlowSchema) bool {
			return len(f.Status.Conditions) == 0 || f.Status.Conditions[0].Status != flowcontrolv1.ConditionFalse
		})
	})
	if err := s.base.objects.CatchUp(ctx); err != nil {
		t.Fatal(err)
	}
	last := map[string]flowcontrolv1.FlowSchemaCondition{}
	events := json.NewDecoder(bytes.NewReader(do(t, s, "GET", schemas+"?watch=true&timeoutSeconds=1&resourceVersion=1", "", "", nil, 200)))
	for events.More() {
		var e struct{ Object flowcontrolv1.FlowSchema }
		if err := events.Decode(&e); err != nil {
			t.Fatal(err)
		}
		for _, c := range e.Object.Status.Conditions {
			if was := last[e.Object.Name]; was.Status == c.Status && was.LastTransitionTime != c.LastTransitionTime {
				t.Errorf("%s: %q at %s, and again at %s", e.Object.Name, c.Message, was.LastTransitionTime, c.LastTransitionTime)
			}
			last[e.Object.Name] = c
		}
	}
	if len(last) == 0 {
		t.Error("there is no condition")
	}
}

// eventually waits until another goroutine of the server has done something.
func eventually(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); time.Sleep(2 * time.Millisecond) { // what it waits for needs the processor
		if time.Now().After(end) {
			t.Fatal("it never came about")
		}
	}
}

func mustGet(t *testing.T, ctx context.Context, ep *engine.Endpoint, name string) engine.Object {
	t.Helper()
	obj, err := ep.GetObject(ctx, "", name)
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestSettingsAreJudged(t *testing.T) {
	for flag, change := range map[string]func(*config.Config){
		"history-size":                            func(c *config.Config) { c.HistorySize = 1 },
		"history-etcd-size":                       func(c *config.Config) { c.HistoryEtcdSize = 1 },
		"history-kinds":                           func(c *config.Config) { c.HistoryKinds = []string{"pods"} },
		"audit-log-mode":                          func(c *config.Config) { c.AuditLog.Path, c.AuditLogDelivery.Mode = "x", "x" },
		"audit-log-format":                        func(c *config.Config) { c.AuditLog.Path, c.AuditLogFormat = "x", "x" },
		"audit-log-maxsize":                       func(c *config.Config) { c.AuditLog.Path, c.AuditLog.MaxSize = "x", -1 },
		"audit-log-version":                       func(c *config.Config) { c.AuditLog.Path, c.AuditLogDelivery.Version = "x", "v1" },
		"audit-webhook-batch-max-size":            func(c *config.Config) { c.AuditWebhookConfigFile, c.AuditWebhookDelivery.MaxSize = "x", 0 },
		"audit-webhook-batch-throttle-qps":        func(c *config.Config) { c.AuditWebhookConfigFile, c.AuditWebhookDelivery.QPS = "x", 0 },
		"audit-webhook-truncate-max-batch-size":   func(c *config.Config) { c.AuditWebhookConfigFile, c.AuditWebhookDelivery.TruncateBatch = "x", 1 },
		"max-requests-inflight":                   func(c *config.Config) { c.MaxReadOnlyInFlight, c.MaxMutatingInFlight = 0, 0 },
		"cors-allowed-origins":                    func(c *config.Config) { c.CORSAllowedOrigins = []string{"("} },
		"strict-transport-security-directives":    func(c *config.Config) { c.HSTSDirectives = []string{"x"} },
		"shutdown-watch-termination-grace-period": func(c *config.Config) { c.WatchTermination = -1 },
		"goaway-chance":                           func(c *config.Config) { c.GoawayChance = 0.5 },
	} {
		c := config.Standalone()
		change(&c)
		if _, _, err := c.Validate(); err == nil || !strings.Contains(err.Error(), "--"+flag) {
			t.Errorf("--%s: %v", flag, err)
		}
	}
	for name, change := range map[string]func(*config.Config){
		"--audit-policy-file":   func(c *config.Config) { c.AuditPolicyFile = "/none" },
		"--tracing-config-file": func(c *config.Config) { c.TracingConfigFile = "/none" },
	} {
		cfg := config.Standalone()
		cfg.DataDir, cfg.UnsafeNoFsync, cfg.NoListener = t.TempDir(), true, true
		change(&cfg)
		if err := fails(t, &cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// At a level without objects, the audit log does not contain secrets.
func TestAuditLogOfAServer(t *testing.T) {
	alone(t, testing.Short())
	dir := t.TempDir()
	log := filepath.Join(dir, "audit.log")
	s := startWith(t, func(c *config.Config) {
		c.AuditPolicyFile, c.AuditLog.Path = filepath.Join(dir, "policy"), log
		policy := "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata, resources: [{resources: [secrets]}]}, {level: RequestResponse}]\n"
		if err := os.WriteFile(c.AuditPolicyFile, []byte(policy), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	const hidden = "aHVudGVyMg=="
	for _, resource := range []string{"secrets", "configmaps"} {
		field := map[string]string{"secrets": "data", "configmaps": "binaryData"}[resource]
		do(t, s, "POST", "/api/v1/namespaces/default/"+resource, "application/json", "", []byte(`{"metadata":{"name":"x"},"`+field+`":{"k":"`+hidden+`"}}`), 201)
		do(t, s, "GET", "/api/v1/namespaces/default/"+resource, "", "", nil, 200)
		do(t, s, "GET", "/api/v1/namespaces/default/"+resource+"/x", "", "application/vnd.kubernetes.protobuf", nil, 200)
		do(t, s, "PATCH", "/api/v1/namespaces/default/"+resource+"/x", "application/merge-patch+json", "", []byte(`{"`+field+`":{"l":"`+hidden+`"}}`), 200)
	}
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, line := range bytes.Split(bytes.TrimSpace(data), []byte("\n")) {
		var ev struct {
			Level     string
			ObjectRef struct{ Resource string }
			User      struct{ Username string }
		}
		if err := json.Unmarshal(line, &ev); err != nil {
			t.Fatal(err)
		}
		seen[ev.User.Username+" "+ev.ObjectRef.Resource]++
		if ev.User.Username == controlplane.Itself().GetName() {
			continue // the first objects of a cluster
		}
		if has := bytes.Contains(line, []byte(hidden)); has != (ev.ObjectRef.Resource == "configmaps") {
			t.Errorf("%s", line)
		}
	}
	if seen["admin secrets"] != 4 || seen["admin configmaps"] != 4 || seen["system:apiserver namespaces"] == 0 {
		t.Errorf("%v", seen)
	}
}

// The audit log has what is applied as an object, though it comes as YAML.
func TestAuditLogOfAnApply(t *testing.T) {
	alone(t, testing.Short())
	dir := t.TempDir()
	log := filepath.Join(dir, "audit.log")
	s := startWith(t, func(c *config.Config) {
		c.AuditPolicyFile, c.AuditLog.Path = filepath.Join(dir, "policy"), log
		policy := "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Request, verbs: [patch], resources: [{resources: [configmaps]}]}]\n"
		if err := os.WriteFile(c.AuditPolicyFile, []byte(policy), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	do(t, s, "PATCH", "/api/v1/namespaces/default/configmaps/x?fieldManager=m", "application/apply-patch+yaml", "", []byte("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\ndata:\n  a: b\n"), 201)
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(data, []byte(`"requestObject":{"apiVersion":"v1","data":{"a":"b"},"kind":"ConfigMap","metadata":{"name":"x"}}`)) {
		t.Errorf("%s", data)
	}
}

// fails returns the error of making a server of settings.
func fails(t *testing.T, cfg *config.Config) error {
	on, p := planeOf(t, cfg, process.Given{})
	err := p.Start(t.Context())
	if err == nil {
		err = p.Stop()
	}
	if closing := on.Close(); closing != nil {
		t.Error(closing)
	}
	return err
}
