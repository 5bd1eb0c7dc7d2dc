package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
)

// Webhook posts lists of events to a server that a kubeconfig names.
type Webhook struct {
	client *http.Client
	url    string
	clock  clock.Clock
	report *Reporter
	// pause before the second attempt; it grows by half each time.
	pause time.Duration
	ctx   context.Context // ends attempts when the webhook is closed
	stop  context.CancelFunc
}

const (
	// webhookAttempts bounds how often a list is sent that is not taken.
	webhookAttempts = 5
	webhookTimeout  = 30 * time.Second
	webhookGrowth   = 1.5
)

// NewWebhook reads the kubeconfig of a webhook. dial, where it is not nil, connects.
func NewWebhook(kubeconfig string, dial utilnet.DialFunc, pause time.Duration, clk clock.Clock, report *Reporter) (*Webhook, error) {
	rules := clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kubeconfig, err)
	}
	cfg.Timeout, cfg.Dial = webhookTimeout, dial
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kubeconfig, err)
	}
	target, err := url.Parse(cfg.Host)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kubeconfig, err)
	}
	if target.Scheme == "" {
		if target, err = url.Parse("https://" + cfg.Host); err != nil {
			return nil, fmt.Errorf("%s: %w", kubeconfig, err)
		}
	}
	target.Path = path.Join("/", target.Path)
	// Clients of upstream ask so, and receivers may tell by it.
	query := target.Query()
	query.Set("timeout", webhookTimeout.String())
	target.RawQuery = query.Encode()
	ctx, stop := context.WithCancel(context.Background())
	return &Webhook{client: client, url: target.String(), clock: clk, report: report, pause: pause, ctx: ctx, stop: stop}, nil
}

// Process posts events, again for a while if they are not taken.
func (h *Webhook) Process(events ...*auditv1.Event) bool {
	body := append([]byte(nil), `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[`...)
	for n, ev := range events {
		if n > 0 {
			body = append(body, ',')
		}
		item := *ev
		item.Kind, item.APIVersion = "", "" // the list says it
		body = appendEvent(body, &item)
	}
	body = append(body, "]}\n"...)
	pause := h.pause
	for attempt := 1; ; attempt++ {
		err := h.post(body)
		if err == nil {
			return true
		}
		if attempt == webhookAttempts || !h.sleep(pause) {
			h.report.lost("webhook", err, events)
			return false
		}
		pause = time.Duration(float64(pause) * webhookGrowth)
	}
}

func (h *Webhook) sleep(d time.Duration) bool {
	select {
	case <-h.clock.After(d):
		return true
	case <-h.ctx.Done():
		return false
	}
}

func (h *Webhook) post(body []byte) error {
	ctx, cancel := context.WithTimeout(h.ctx, webhookTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, */*")
	resp, err := h.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	// A long answer is not read to its end; its connection is not used again.
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("%s: %s", resp.Status, reason(text))
	}
	return nil
}

// reason is the message of an answer that is a Status, or its text.
func reason(text []byte) string {
	var status struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(text, &status) == nil && status.Message != "" {
		return status.Message
	}
	return strings.TrimSpace(string(text))
}

// Close ends attempts that are under way.
func (h *Webhook) Close() error {
	h.stop()
	h.client.CloseIdleConnections()
	return nil
}
