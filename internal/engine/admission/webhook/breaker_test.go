package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
	"github.com/kanzen-io/kanzen/internal/engine/admission/measure"
	"github.com/kanzen-io/kanzen/internal/engine/admission/webhook"
	"github.com/kanzen-io/kanzen/internal/object/cel"
)

// is says what is wrong with the webhook.
func (f *fragile) is() string { s, _ := f.down.Load().(string); return s }

// fragile is a webhook. down says what is wrong with it: "" nothing, "refuse" it takes no connections, "hang" it takes them and
// does not answer. What is in an object decides what becomes of its review while nothing is wrong.
type fragile struct {
	down          atomic.Value // of string
	calls, probes atomic.Int64 // of writes, and of the server itself
}

func (f *fragile) RoundTrip(r *http.Request) (*http.Response, error) {
	trace := httptrace.ContextClientTrace(r.Context())
	var asked struct {
		Request struct {
			UID    types.UID         `json:"uid"`
			DryRun bool              `json:"dryRun"`
			Object *corev1.ConfigMap `json:"object"`
		} `json:"request"`
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		return nil, err
	}
	if asked.Request.DryRun {
		f.probes.Add(1)
	} else {
		f.calls.Add(1)
	}
	does := asked.Request.Object.Data["does"]
	if f.is() == "refuse" {
		return nil, errors.New("connection refused")
	}
	trace.GotConn(httptrace.GotConnInfo{})
	switch {
	case f.is() == "hang", does == "hang":
		<-r.Context().Done()
		return nil, r.Context().Err()
	case does == "cut":
		return nil, io.ErrUnexpectedEOF
	}
	trace.GotFirstResponseByte()
	code, body := http.StatusOK, fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":%t}}`,
		asked.Request.UID, does != "deny")
	switch does {
	case "500":
		code = http.StatusInternalServerError
	case "hang later":
		<-r.Context().Done()
		return nil, r.Context().Err()
	case "garbage":
		body = "?"
	}
	return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// fragility is a fragile webhook behind guardrails whose patience is 30 seconds; call it in a bubble of synctest.
type fragility struct {
	fragile
	chain    admission.Chain
	registry *prometheus.Registry
}

func newFragility(t *testing.T, policy admissionv1.FailurePolicyType) *fragility {
	f := &fragility{registry: prometheus.NewRegistry()}
	log := slog.New(slog.NewTextHandler(&bytes.Buffer{}, nil))
	rails := webhook.NewGuardrails(webhook.GuardrailsConfig{Patience: 30 * time.Second, Clock: clock.RealClock{},
		Guard: guard.New(log, clock.RealClock{}, nil), Log: log, Registry: f.registry})
	view := &admissiontest.View{}
	host, ten := "https://hook:443", int32(10)
	view.Set(&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Webhooks: []admissionv1.ValidatingWebhook{{
		Name: "w", ClientConfig: admissionv1.WebhookClientConfig{URL: &host}, Rules: writes, SideEffects: &none, FailurePolicy: &policy,
		AdmissionReviewVersions: []string{"v1"}, NamespaceSelector: everyone, ObjectSelector: everyone, TimeoutSeconds: &ten}}})
	var n atomic.Int64
	f.chain = admission.Chain{webhook.Validating(webhook.Deps{
		Validating: view, Namespaces: namespaces{}, Authorizer: authz.AlwaysAllow{},
		Compiler: cel.NewCompiler(), Metrics: measure.New(), Clock: clock.RealClock{}, Log: log, Guardrails: rails,
		Clients: webhook.NewClients(webhook.Credentials{}, webhook.Dialers{InProcess: func(string) http.RoundTripper { return &f.fragile }}, nil, nil),
		NewUID:  func() types.UID { return types.UID(fmt.Sprint(n.Add(1))) },
	})}
	go rails.Run(t.Context())
	return f
}

// write is a write of a user into a namespace.
func (f *fragility) write(ctx context.Context, who, namespace, does string) error {
	a := configMap()
	a.User, a.Namespace = &user.DefaultInfo{Name: who}, namespace
	cm := a.Object.(*corev1.ConfigMap)
	cm.Namespace, cm.Data = namespace, map[string]string{"does": does}
	return f.chain.Validate(ctx, a)
}

func (f *fragility) open() bool {
	n, err := testutil.GatherAndCount(f.registry, "kanzen_admission_webhook_breaker_open")
	return err == nil && n > 0
}

// outage has three users in two namespaces write for a minute.
func (f *fragility) outage(t *testing.T) {
	for n := range 6 {
		_ = f.write(t.Context(), fmt.Sprint("user", n%3), fmt.Sprint("n", n%2), "")
		time.Sleep(10 * time.Second)
	}
	time.Sleep(20 * time.Second) // a probe may take as long as the webhook's timeout
}

// A webhook that is gone is not waited for: writes are refused at once, or wait for a second if its failures are ignored. It
// is asked again as soon as it answers this server, and what it refuses is refused.
func TestBreaker(t *testing.T) {
	for _, policy := range []admissionv1.FailurePolicyType{admissionv1.Fail, admissionv1.Ignore} {
		for _, down := range []string{"refuse", "hang"} {
			t.Run(string(policy)+"/"+down, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFragility(t, policy)
					f.down.Store(down)
					f.outage(t)
					if !f.open() {
						t.Fatal("it is not open")
					}
					calls, began := f.calls.Load(), time.Now()
					err := f.write(t.Context(), "user", "n", "")
					took := time.Since(began)
					if wait := policy == admissionv1.Ignore && down == "hang"; (err == nil) != (policy == admissionv1.Ignore) || took > time.Second || (took > 0) != wait {
						t.Errorf("open: %v after %v", err, took)
					}
					if asked := f.calls.Load() > calls; asked != (policy == admissionv1.Ignore) {
						t.Errorf("open: the webhook was asked: %t", asked)
					}
					f.down.Store("")
					if policy == admissionv1.Fail {
						time.Sleep(20 * time.Second)
					}
					if err := f.write(t.Context(), "user", "n", "deny"); err == nil || !strings.Contains(err.Error(), "denied the request") {
						t.Errorf("it answers again: %v", err)
					}
					if f.open() {
						t.Error("it is still open")
					}
				})
			})
		}
	}
}

// A suspicion is forgotten when nobody needs the webhook any more.
func TestBreakerIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFragility(t, admissionv1.Fail)
		f.down.Store("refuse")
		f.outage(t)
		time.Sleep(10 * time.Minute)
		probes := f.probes.Load()
		time.Sleep(10 * time.Minute)
		if f.open() || f.probes.Load() != probes {
			t.Errorf("open %t, %d probes more", f.open(), f.probes.Load()-probes)
		}
	})
}

// TestBreakerAndUsers has random users send random objects to a webhook that is sound, or gone at times. Whatever the objects
// are, the breaker opens neither while the webhook answers others nor by the writes of one user, and it never lets by what the
// webhook refuses.
func TestBreakerAndUsers(t *testing.T) {
	objects := []string{"", "deny", "500", "hang", "hang later", "cut", "garbage"}
	namespace := func(r *rand.Rand) string { return fmt.Sprint("n", r.IntN(20)) }
	crowds := map[string]func(r *rand.Rand) (who, namespace string){
		"one user": func(r *rand.Rand) (string, string) { return "mallory", namespace(r) },
		"service accounts of a namespace": func(r *rand.Rand) (string, string) {
			return fmt.Sprint("system:serviceaccount:tenant:", r.IntN(1000)), namespace(r)
		},
		"everybody":                func(r *rand.Rand) (string, string) { return fmt.Sprint("user", r.IntN(50)), namespace(r) },
		"everybody in a namespace": func(r *rand.Rand) (string, string) { return fmt.Sprint("user", r.IntN(50)), "tenant" },
	}
	for name, crowd := range crowds {
		for _, policy := range []admissionv1.FailurePolicyType{admissionv1.Fail, admissionv1.Ignore} {
			for seed := range uint64(6) {
				fails := seed%2 == 1 // the webhook is gone at times
				t.Run(fmt.Sprintf("%s/%s/%d", name, policy, seed), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						r := rand.New(rand.NewPCG(seed, 1))
						f := newFragility(t, policy)
						bad := objects[r.IntN(len(objects))]
						for step := range 300 {
							if fails && r.IntN(20) == 0 {
								f.down.Store([]string{"", "refuse", "hang"}[r.IntN(3)])
								time.Sleep(15 * time.Second) // until a probe has seen it, and a write meets a webhook in a known state
							}
							who, where := crowd(r)
							does := bad
							if r.IntN(4) == 0 {
								does = objects[r.IntN(len(objects))]
							}
							ctx, cancel := context.WithTimeout(t.Context(), []time.Duration{time.Millisecond, time.Second, time.Minute}[r.IntN(3)])
							err := f.write(ctx, who, where, does)
							cancel()
							if does == "deny" && f.is() == "" && err == nil {
								t.Fatalf("step %d: what the webhook refuses is let by", step)
							}
							if f.open() && (!fails || name != "everybody") {
								t.Fatalf("step %d: the breaker is open", step)
							}
							if f.is() == "" && does != "hang" && f.open() {
								t.Fatalf("step %d: the breaker is open, and the webhook answers", step)
							}
							time.Sleep(time.Duration(r.IntN(10)) * time.Second)
						}
					})
				})
			}
		}
	}
}
