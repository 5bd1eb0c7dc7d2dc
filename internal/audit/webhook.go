package audit

import (
	"context"
	"net/http"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/remote"
)

// Webhook posts lists of events to a server that a kubeconfig names.
type Webhook struct {
	client *remote.Client
	retry  remote.Retry
	report *Reporter
	ctx    context.Context // ends attempts when the webhook is closed
	stop   context.CancelFunc
}

// NewWebhook reads the kubeconfig of a webhook. dial, where it is not nil,
// connects; pause is that before the second attempt to send a list.
func NewWebhook(kubeconfig string, dial utilnet.DialFunc, pause time.Duration, clk clock.Clock, report *Reporter) (*Webhook, error) {
	client, err := remote.FromKubeconfig(kubeconfig, 0, dial)
	if err != nil {
		return nil, err
	}
	retry := remote.DefaultRetry(clk)
	retry.Pause = pause
	// Whatever is wrong: while the server may come to itself, nothing is lost.
	retry.Passes = func(error) bool { return true }
	ctx, stop := context.WithCancel(context.Background())
	return &Webhook{client: client, retry: retry, report: report, ctx: ctx, stop: stop}, nil
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
	if err := h.retry.Do(h.ctx, func() error { return h.post(body) }); err != nil {
		h.report.lost("webhook", err, events)
		return false
	}
	return true
}

func (h *Webhook) post(body []byte) error {
	code, _, err := h.client.Send(h.ctx, body)
	if code >= http.StatusOK && code < http.StatusMultipleChoices {
		return nil // taken, whatever it says beyond that
	}
	return err
}

// Close ends attempts that are under way.
func (h *Webhook) Close() error {
	h.stop()
	h.client.Close()
	return nil
}
