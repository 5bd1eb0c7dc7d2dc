package controlplane

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/store"
)

// Health check URLs of the other control plane components, on the machine that they usually share with the API server.
var componentHealth = map[string]string{
	"controller-manager": "https://127.0.0.1:10257/healthz",
	"scheduler":          "https://127.0.0.1:10259/healthz",
}

// componentTimeout bounds each health check.
const componentTimeout = 2 * time.Second

// ComponentStatuses returns the health of the control plane components.
func ComponentStatuses(ctx context.Context, st *store.Cluster) ([]*corev1.ComponentStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, componentTimeout)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		// They have self-signed certificates; the requests contain nothing secret.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12},
	}}
	var out []*corev1.ComponentStatus
	for _, name := range []string{"controller-manager", "scheduler"} {
		out = append(out, componentStatus(name, askHealth(ctx, client, componentHealth[name])))
	}
	for n, s := range st.All() {
		out = append(out, componentStatus(fmt.Sprintf("etcd-%d", n), s.Ping(ctx)))
	}
	return out, nil
}

func askHealth(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, text)
	}
	return nil
}

func componentStatus(name string, err error) *corev1.ComponentStatus {
	c := corev1.ComponentCondition{Type: corev1.ComponentHealthy, Status: corev1.ConditionTrue, Message: "ok"}
	if err != nil {
		c.Status, c.Message, c.Error = corev1.ConditionFalse, err.Error(), err.Error()
	}
	return &corev1.ComponentStatus{ObjectMeta: metav1.ObjectMeta{Name: name}, Conditions: []corev1.ComponentCondition{c}}
}
