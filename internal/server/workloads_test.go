package server

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/process/config"
)

// Whoever creates a workload that nobody works on is told so, once a minute a kind.
func TestWorkloadsAreWarnedOf(t *testing.T) {
	alone(t, testing.Short())
	s := startWith(t, func(c *config.Config) { c.Controllers = []string{"namespace"} })
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"p-","namespace":"default"},"spec":{%s"serviceAccountName":"default","containers":[{"name":"c","image":"i"}]}}`
	const job = `{"apiVersion":"batch/v1","kind":"Job","metadata":{"generateName":"j-"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}`
	const cronJob = `{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"generateName":"c-"},"spec":{"schedule":"0 0 * * *","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}}}`
	do(t, s, "POST", "/api/v1/namespaces/default/serviceaccounts", "application/json", "", []byte(`{"metadata":{"name":"default"}}`), 201)
	for _, c := range []struct{ name, path, body, says string }{
		{"pod with a node", "/api/v1/namespaces/default/pods", fmt.Sprintf(pod, `"nodeName":"n",`), ""},
		{"pod of another scheduler", "/api/v1/namespaces/default/pods", fmt.Sprintf(pod, `"schedulerName":"mine",`), ""},
		{"pod", "/api/v1/namespaces/default/pods", fmt.Sprintf(pod, ""), "no kube-scheduler runs for this Pod"},
		{"second pod", "/api/v1/namespaces/default/pods", fmt.Sprintf(pod, ""), ""},
		{"job", "/apis/batch/v1/namespaces/default/jobs", job, "no kube-controller-manager runs for this Job"},
	} {
		if got := warningsOf(t, s, c.path, c.body); c.says == "" && got != "" || !strings.Contains(got, c.says) {
			t.Errorf("%s: %q, want %q", c.name, got, c.says)
		}
	}
	lease := fmt.Sprintf(`{"metadata":{"name":"kube-controller-manager"},"spec":{"holderIdentity":"x","leaseDurationSeconds":15,"renewTime":%q}}`,
		time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00"))
	do(t, s, "POST", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", "application/json", "", []byte(lease), 201)
	if got := warningsOf(t, s, "/apis/batch/v1/namespaces/default/cronjobs", cronJob); got != "" {
		t.Errorf("with a controller: %q", got)
	}
}

// In kube-apiserver's place nobody is told what runs beside it.
func TestWorkloadsAreNotWarnedOf(t *testing.T) {
	alone(t, testing.Short())
	if config.Default().WarnWorkloads || !config.Standalone().WarnWorkloads {
		t.Error("the warnings are for servers alone")
	}
}

// warningsOf creates an object and returns the warnings of the answer.
func warningsOf(t *testing.T, s *server, path, body string) string {
	t.Helper()
	req := httptest.NewRequest("POST", path, strings.NewReader(body))
	req = req.WithContext(inprocess.WithUser(req.Context(), masters))
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, req)
	if w.Code != 201 {
		t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return strings.Join(w.Header().Values("Warning"), " ")
}
