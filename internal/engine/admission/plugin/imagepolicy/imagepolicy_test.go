package imagepolicy_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/imagepolicy"
)

// backend refuses images that are not from a registry, and counts its calls.
type backend struct {
	asked  int
	broken bool
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.asked++
	var review imagepolicyv1alpha1.ImageReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || b.broken {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	review.Status.Allowed = true
	for _, c := range review.Spec.Containers {
		if !strings.HasPrefix(c.Image, "registry/") {
			review.Status = imagepolicyv1alpha1.ImageReviewStatus{Reason: c.Image + " is not ours"}
		}
	}
	_ = json.NewEncoder(w).Encode(review)
}

func newPlugin(t *testing.T, url, more string, clock *testclock.FakeClock) admission.Plugin {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":%q}}],"users":[{"name":"u"}],
		"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],"current-context":"x"}`, url)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := imagepolicy.New(clock, []byte(fmt.Sprintf("imagePolicy:\n  kubeConfigFile: %s\n  allowTTL: 30\n%s", kubeconfig, more)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func pod(image string) *admission.Attributes {
	return admissiontest.Create(admission.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}})
}

func TestImages(t *testing.T) {
	b := &backend{}
	s := httptest.NewServer(b)
	defer s.Close()
	clock := testclock.NewFakeClock(time.Now())
	p := newPlugin(t, s.URL, "", clock)
	admissiontest.Check(t, admissiontest.Run(p, pod("registry/a")), "")
	admissiontest.Check(t, admissiontest.Run(p, pod("b")), "image policy webhook backend denied one or more images: b is not ours")
	admissiontest.Check(t, admissiontest.Run(p, pod("registry/a")), "")
	if b.asked != 2 {
		t.Errorf("asked %d times, want 2: the answer is known", b.asked)
	}
	clock.Step(31 * time.Second)
	admissiontest.Check(t, admissiontest.Run(p, pod("registry/a")), "")
	if b.asked != 3 {
		t.Errorf("asked %d times, want 3: the answer is old", b.asked)
	}
	status := pod("b")
	status.Subresource = "status"
	admissiontest.Check(t, admissiontest.Run(p, status), "")
}

func TestFailures(t *testing.T) {
	s := httptest.NewServer(&backend{broken: true})
	defer s.Close()
	clock := testclock.NewFakeClock(time.Now())
	admissiontest.Check(t, admissiontest.Run(newPlugin(t, s.URL, "", clock), pod("a")), "the server rejected our request")
	a := pod("a")
	admissiontest.Check(t, admissiontest.Run(newPlugin(t, s.URL, "  defaultAllow: true", clock), a), "")
	if a.Object.(*corev1.Pod).Annotations["alpha.image-policy.k8s.io/failed-open"] != "true" {
		t.Error("a pod that was let in on a failure has no mark")
	}
}

func TestConfiguration(t *testing.T) {
	for _, text := range []string{"", "imagePolicy: {}", "imagePolicy: {allowTTL: 100000, kubeConfigFile: /none}"} {
		if _, err := imagepolicy.New(testclock.NewFakeClock(time.Now()), []byte(text)); err == nil {
			t.Errorf("%q is no configuration", text)
		}
	}
}
