package test

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/internal/wire/pki/pkitest"
)

// TestCustomMetrics puts the test adapter of custom-metrics-apiserver behind kanzen, where it serves two groups, the paths
// of which name resources of others, and asks for metrics as autoscalers do.
func TestCustomMetrics(t *testing.T) {
	t.Parallel()
	program := buildOthers(t, "CUSTOM_METRICS", "custommetrics")
	k := serve(t, filepath.Join(t.TempDir(), "data"))
	pair := pkitest.Server(t, "metrics.custom.svc", "localhost")
	cert, key := pair.Write(t, t.TempDir())
	port, writes := freePort(t), freePort(t)
	p := start(t, program, "--bind-address=127.0.0.1", "--secure-port", port, "--tls-cert-file", cert, "--tls-private-key-file", key, "--write-listen", "127.0.0.1:"+writes,
		"--lister-kubeconfig", k.kubeconfig(), "--authentication-kubeconfig", k.kubeconfig(), "--authorization-kubeconfig", k.kubeconfig())
	registerLocal(t, k.client(), "custom", "metrics", port, pair.PEM(), "custom.metrics.k8s.io/v1beta2", "external.metrics.k8s.io/v1beta1")
	within(t, time.Minute, "a metric is written", func(ctx context.Context) bool {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:"+writes+"/write-metrics/namespaces/default/services/kubernetes/requests", strings.NewReader(`"300m"`))
		must(t, err)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	})
	raw := func(path string, args ...string) string {
		stdout, stderr, _ := output(t, binaries.kubectl, append([]string{"--kubeconfig", k.kubeconfig(), "get", "--raw", path}, args...)...)
		return stdout + stderr
	}
	defer func() {
		if t.Failed() {
			t.Log(raw("/apis/custom.metrics.k8s.io/v1beta2"), p.stderr.String())
		}
	}()
	for path, part := range map[string]string{
		"/apis/custom.metrics.k8s.io/v1beta2":                                                 `"name":"/custommetrics"`, // what its provider lists without a list of its own
		"/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/services/kubernetes/requests": `"value":"300m"`,
		"/apis/external.metrics.k8s.io/v1beta1/namespaces/default/my-external-metric":         `"ExternalMetricValueList"`,
	} {
		last := ""
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("%s: %s", path, last)
			}
		})
		within(t, time.Minute, path+" has "+part, func(context.Context) bool { last = raw(path); return strings.Contains(last, part) })
	}
	// Who may do nothing here may do nothing there.
	if got := raw("/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/services/kubernetes/requests", "--as=nobody"); !strings.Contains(got, `User "nobody" cannot get resource "services/requests" in API group "custom.metrics.k8s.io"`) {
		t.Errorf("as nobody: %s", got)
	}
}
