package webhook_test

import (
	"context"
	"encoding/base64"
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

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/admission"
	"github.com/kanzen-io/kanzen/internal/admission/admissiontest"
	"github.com/kanzen-io/kanzen/internal/admission/measure"
	"github.com/kanzen-io/kanzen/internal/admission/webhook"
	"github.com/kanzen-io/kanzen/internal/authz"
	"github.com/kanzen-io/kanzen/internal/cel"
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
	chain                admission.Chain
}

func newSite(t *testing.T) *site {
	s := &site{mutating: &admissiontest.View{}, validating: &admissiontest.View{}}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(answer))
	t.Cleanup(s.Close)
	var n atomic.Int64
	d := webhook.Deps{
		Mutating: s.mutating, Validating: s.validating, Namespaces: namespaces{}, Authorizer: authz.AlwaysAllow{},
		Compiler: cel.NewCompiler(), Metrics: measure.New(), Clock: clock.RealClock{}, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Clients: webhook.NewClients(webhook.Credentials{}, webhook.Dialers{}, nil, nil),
		NewUID:  func() types.UID { return types.UID(fmt.Sprint(n.Add(1))) },
	}
	s.chain = admission.Chain{webhook.Mutating(d), webhook.Validating(d)}
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
