package audit

import (
	"context"
	"net/http"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/wire/remote"
)

// Webhook posts lists of events to a server named by a kubeconfig.
type Webhook struct {
	client *remote.Client
	retry  remote.Retry
	report *Reporter
	ctx    context.Context // cancels attempts when the webhook is closed
	stop   context.CancelFunc
}

// NewWebhook reads the kubeconfig of a webhook. dial, if not nil, opens connections; pause is the time before the
// second attempt to send a list.
func NewWebhook(kubeconfig string, dial utilnet.DialFunc, pause time.Duration, clk clock.Clock, report *Reporter) (*Webhook, error) {
	client, err := remote.FromKubeconfig(kubeconfig, 0, dial)
	if err != nil {
		return nil, err
	}
	retry := remote.DefaultRetry(clk)
	retry.Pause = pause
	// Retry after every error: the server may recover, and then no event is lost.
	retry.Passes = func(error) bool { return true }
	ctx, stop := context.WithCancel(context.Background())
	return &Webhook{client: client, retry: retry, report: report, ctx: ctx, stop: stop}, nil
}

// Process posts events, and retries for some time if that fails.
func (h *Webhook) Process(events ...*auditv1.Event) bool {
	body := append([]byte(nil), `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[`...)
	for n, ev := range events {
		if n > 0 {
			body = append(body, ',')
		}
		item := *ev
		item.Kind, item.APIVersion = "", "" // the list's kind already implies it
		body = appendEvent(body, &item)
	}
	body = append(body, "]}\n"...)
	if err := h.retry.Do(h.ctx, func() error { return h.post(body) }); err != nil {
		h.report.lost("webhook", err, events)
		return false
	}
	return true
}

func (h *Webhook) post(body []byte) error {
	code, _, err := h.client.Send(h.ctx, body)
	if code >= http.StatusOK && code < http.StatusMultipleChoices {
		return nil // a success code is enough; the body does not matter
	}
	return err
}

// Close cancels attempts that are in progress.
func (h *Webhook) Close() error {
	h.stop()
	h.client.Close()
	return nil
}
