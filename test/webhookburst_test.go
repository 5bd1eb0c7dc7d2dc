package test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// TestWebhookBurst makes twenty webhook configurations at once while the machine computes and others write: each must be in
// force for the first write after its own creation was answered, and the log tells how long that took.
func TestWebhookBurst(t *testing.T) {
	const configurations = 20
	k := serve(t, filepath.Join(t.TempDir(), "data"))
	c := k.config()
	c.QPS = -1
	client := kubernetes.NewForConfigOrDie(c)
	s := tlsServer(t, http.HandlerFunc(deny))
	hook := admissionregistrationv1.WebhookClientConfig{URL: &s.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})}

	var load, burst sync.WaitGroup
	var ended atomic.Bool
	var writes, spins atomic.Int64
	defer load.Wait()
	defer ended.Store(true)
	for n := range 2 * runtime.NumCPU() {
		load.Go(func() {
			for !ended.Load() {
				spins.Add(1)
			}
		})
		load.Go(func() {
			for m := 0; !ended.Load(); m++ {
				object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("load-%d-%d", n, m)}}
				if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
					t.Errorf("a write that no webhook is for: %v", err)
					return
				}
				writes.Add(1)
			}
		})
	}
	took := make([]time.Duration, configurations)
	for n := range configurations {
		burst.Go(func() {
			label := map[string]string{"burst": fmt.Sprint(n)}
			began := time.Now()
			_, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("burst-%d", n)},
				Webhooks: []admissionregistrationv1.ValidatingWebhook{{
					Name: fmt.Sprintf("burst-%d.example.com", n), ClientConfig: hook, AdmissionReviewVersions: []string{"v1"},
					SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), TimeoutSeconds: ptr.To[int32](30),
					ObjectSelector: &metav1.LabelSelector{MatchLabels: label},
					Rules: []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
						Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}}},
				}}}, metav1.CreateOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("marker-%d", n), Labels: label}}
			_, err = client.CoreV1().ConfigMaps("default").Create(t.Context(), object, metav1.CreateOptions{})
			took[n] = time.Since(began)
			if !apierrors.IsForbidden(err) {
				t.Errorf("configuration %d is not in force when its creation is answered: %v", n, err)
			}
		})
	}
	burst.Wait()
	slowest := time.Duration(0)
	for _, d := range took {
		slowest = max(slowest, d)
	}
	t.Logf("%d configurations are made and in force within %v, beside %d other writes", configurations, slowest.Round(time.Millisecond), writes.Load())
	if slowest > 30*time.Second {
		t.Errorf("the slowest took %v", slowest)
	}
}

// deny is a webhook that refuses everything.
func deny(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{Code: http.StatusForbidden, Message: "no"}}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}
