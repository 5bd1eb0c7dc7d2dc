package webhook_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
	"github.com/kanzen-io/kanzen/internal/engine/admission/measure"
	"github.com/kanzen-io/kanzen/internal/engine/admission/webhook"
	"github.com/kanzen-io/kanzen/internal/object/cel"
	"github.com/kanzen-io/kanzen/internal/request"
)

type namespaces struct{}

func (namespaces) NamespaceLabels(context.Context, string) (labels.Set, error) {
	return labels.Set{"env": "test"}, nil
}

func (namespaces) Namespace(_ context.Context, name string) (*corev1.Namespace, error) {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
}

// site is a web server with webhooks, and the plugins that call them.
type site struct {
	*httptest.Server
	mutating, validating *admissiontest.View
	deps                 webhook.Deps
	chain                admission.Chain
	log                  bytes.Buffer
	clock                *clocktesting.FakePassiveClock
}

func newSite(t testing.TB) *site {
	s := &site{mutating: &admissiontest.View{}, validating: &admissiontest.View{}, clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0))}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/slow") {
			s.clock.SetTime(s.clock.Now().Add(3 * time.Second))
		}
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	var n atomic.Int64
	d := webhook.Deps{
		Mutating: s.mutating, Validating: s.validating, Namespaces: namespaces{}, Authorizer: authz.AlwaysAllow{},
		Compiler: cel.NewCompiler(), Metrics: measure.New(), Clock: s.clock, Log: slog.New(slog.NewTextHandler(&s.log, nil)),
		Clients: webhook.NewClients(webhook.Credentials{}, webhook.Dialers{}, nil, nil),
		NewUID:  func() types.UID { return types.UID(fmt.Sprint(n.Add(1))) },
	}
	s.deps, s.chain = d, admission.Chain{webhook.Mutating(d), webhook.Validating(d)}
	return s
}

func answer(w http.ResponseWriter, r *http.Request) {
	var review struct {
		Request struct {
			UID    string            `json:"uid"`
			Object *corev1.ConfigMap `json:"object"`
		} `json:"request"`
	}
	if json.NewDecoder(r.Body).Decode(&review) != nil {
		return
	}
	response := map[string]any{"uid": review.Request.UID, "allowed": !strings.HasPrefix(r.URL.Path, "/deny")}
	if key, ok := strings.CutPrefix(r.URL.Path, "/append/"); ok {
		ops := fmt.Sprintf(`[{"op":"add","path":"/data","value":{"order":%q}}]`, review.Request.Object.Data["order"]+key)
		response["patch"], response["patchType"] = base64.StdEncoding.EncodeToString([]byte(ops)), "JSONPatch"
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

func (s *site) client(path string) admissionv1.WebhookClientConfig {
	url := s.URL + path
	return admissionv1.WebhookClientConfig{URL: &url, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})}
}

var (
	none     = admissionv1.SideEffectClassNone
	ignore   = admissionv1.Ignore
	ifNeeded = admissionv1.IfNeededReinvocationPolicy
	everyone = &metav1.LabelSelector{}
	writes   = []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{"*"},
		Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}}}
)

func (s *site) mutates(name string, p *admissionv1.ReinvocationPolicyType, paths ...string) *admissionv1.MutatingWebhookConfiguration {
	c := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, path := range paths {
		c.Webhooks = append(c.Webhooks, admissionv1.MutatingWebhook{Name: "w", ClientConfig: s.client(path), Rules: writes, SideEffects: &none, ReinvocationPolicy: p,
			AdmissionReviewVersions: []string{"v1"}, NamespaceSelector: everyone, ObjectSelector: everyone})
	}
	return c
}

func (s *site) validates(name string, f *admissionv1.FailurePolicyType, paths ...string) *admissionv1.ValidatingWebhookConfiguration {
	c := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, path := range paths {
		c.Webhooks = append(c.Webhooks, admissionv1.ValidatingWebhook{Name: "w", ClientConfig: s.client(path), Rules: writes, SideEffects: &none, FailurePolicy: f,
			AdmissionReviewVersions: []string{"v1"}, NamespaceSelector: everyone, ObjectSelector: everyone})
	}
	return c
}

func configMap() *admission.Attributes {
	cm := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "n"}}
	a := admissiontest.Create(corev1.Resource("configmaps"), cm)
	a.Kind = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	return a
}

func (s *site) run(t *testing.T, a *admission.Attributes) (string, error) {
	t.Helper()
	if err := s.chain.Admit(t.Context(), a); err != nil {
		return "", err
	}
	return a.Object.(*corev1.ConfigMap).Data["order"], s.chain.Validate(t.Context(), a)
}

func TestOrderAndReinvocation(t *testing.T) {
	s := newSite(t)
	for _, c := range []struct {
		name   string
		policy *admissionv1.ReinvocationPolicyType
		want   string
	}{
		{"once", nil, "abc"},
		{"again what came before a change", &ifNeeded, "abcab"},
	} {
		s.mutating.Set(s.mutates("1", c.policy, "/append/a", "/append/b"), s.mutates("2", nil, "/append/c"))
		if got, err := s.run(t, configMap()); err != nil || got != c.want {
			t.Errorf("%s: got %q, %v, want %q", c.name, got, err, c.want)
		}
	}
}

// A configuration is in force from the next write on, and only its webhooks are
// called.
func TestConfigurationChanges(t *testing.T) {
	s := newSite(t)
	for n := range 3 {
		s.validating.Set()
		if _, err := s.run(t, configMap()); err != nil {
			t.Fatal(n, err)
		}
		s.validating.Set(s.validates("v", nil, "/allow", "/deny"))
		if _, err := s.run(t, configMap()); err == nil || err.Error() != `admission webhook "w" denied the request without explanation` {
			t.Fatal(n, err)
		}
		a := configMap()
		a.Kind.Group, a.Kind.Kind = admissionv1.GroupName, "ValidatingWebhookConfiguration"
		if _, err := s.run(t, a); err != nil {
			t.Errorf("a webhook was asked about its own kind: %v", err)
		}
	}
}

func TestFailures(t *testing.T) {
	s := newSite(t)
	s.validating.Set(s.validates("v", &ignore, "/allow"), s.validates("w", nil, "/allow"))
	s.Close() // the webhooks no longer answer
	_, err := s.run(t, configMap())
	if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), `failed calling webhook "w": failed to call webhook: Post`) {
		t.Errorf("got %v", err)
	}
	s.validating.Set(s.validates("v", &ignore, "/allow", "/allow"))
	audit := request.NewAudit("id", request.AuditMetadata)
	a := configMap()
	if err := s.chain.Validate(request.WithAudit(t.Context(), audit), a); err != nil {
		t.Fatal(err)
	}
	var marks int
	for _, n := range audit.Facts().Annotations {
		if strings.HasPrefix(n.Key, "failed-open.validating.webhook.admission.k8s.io/round_0_index_") {
			marks++
		}
	}
	if marks != 2 {
		t.Errorf("%d marks of failures that did not count, want 2", marks)
	}
}

// A webhook that fails, or is slow, is in the log: a line when that begins, and seldom while it lasts. A refusal is no trouble.
func TestTroubleIsInTheLog(t *testing.T) {
	for _, c := range []struct {
		path  string
		fails *admissionv1.FailurePolicyType
		gone  bool
		want  []string // in the line; nil: there is none
	}{
		{path: "/allow"},
		{path: "/deny"},
		{path: "/slow", want: []string{"level=WARN", "a webhook is slow", "webhook=w", "configuration=v", "took=3s"}},
		{path: "/allow", gone: true, want: []string{"level=WARN", "a webhook does not answer", "writes that it is asked about are refused", "webhook=w", "configuration=v", "connection refused"}},
		{path: "/allow", gone: true, fails: &ignore, want: []string{"a webhook does not answer", "writes go on without it"}},
	} {
		s := newSite(t)
		if c.gone {
			s.Close()
		}
		s.validating.Set(s.validates("v", c.fails, c.path))
		said := func(times int) string {
			s.log.Reset()
			for range times {
				_ = s.chain.Validate(t.Context(), configMap()) // what it answers is tested elsewhere
			}
			return s.log.String()
		}
		for _, later := range []bool{false, true} {
			if later {
				s.clock.SetTime(s.clock.Now().Add(time.Hour))
				c.want = append(c.want, "alsoBefore=4")
			}
			got := said(5)
			if wanted := len(c.want) > 1; strings.Count(got, "\n") != map[bool]int{false: 0, true: 1}[wanted] {
				t.Errorf("%s: later %t: %q", c.path, later, got)
			} else if wanted {
				for _, w := range c.want {
					if !strings.Contains(got, w) {
						t.Errorf("%s: later %t: %q has no %q", c.path, later, got, w)
					}
				}
			}
		}
	}
}

// A call that the client has given up is not the webhook's fault.
func TestGivenUpIsNoTrouble(t *testing.T) {
	s := newSite(t)
	s.validating.Set(s.validates("v", nil, "/allow"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.chain.Validate(ctx, configMap()); err == nil || s.log.Len() > 0 {
		t.Errorf("%v; the log: %s", err, s.log.String())
	}
}

// Configurations change while many writes are under way.
func TestManyWriters(t *testing.T) {
	s := newSite(t)
	s.mutating.Set(s.mutates("m", &ifNeeded, "/append/a"))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				if got, err := s.run(t, configMap()); err != nil || !strings.HasPrefix(got, "a") {
					t.Errorf("got %q, %v", got, err)
				}
			}
		})
	}
	for range 20 {
		s.validating.Set(s.validates("v", nil, "/allow", "/allow", "/allow"))
		s.mutating.Set(s.mutates("m", &ifNeeded, "/append/a", "/append/b"))
	}
	wg.Wait()
}

// A write that matches no webhook allocates nothing.
func TestUnmatchedAllocatesNothing(t *testing.T) {
	s := newSite(t)
	s.mutating.Set(s.mutates("m", nil, "/append/a"))
	s.validating.Set(s.validates("v", nil, "/deny"))
	a := configMap()
	a.Resource.Resource = "secrets"
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		if s.chain.Admit(ctx, a) != nil || s.chain.Validate(ctx, a) != nil {
			t.Error("refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
