package webhook

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// TestOutcome checks what calls over real connections say about a webhook.
func TestOutcome(t *testing.T) {
	held := make(chan struct{})
	defer close(held)
	site := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/500":
			w.WriteHeader(http.StatusInternalServerError)
		case "/cut":
			panic(http.ErrAbortHandler)
		case "/hang":
			<-held
		case "/slow":
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-held
		}
	}))
	defer site.CloseClientConnections()
	closed := httptest.NewTLSServer(nil)
	closed.Close()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: site.Certificate().Raw})
	const short, long = 100 * time.Millisecond, time.Minute
	for _, c := range []struct {
		what, url string
		ca        []byte
		ctx       context.Context
		timeout   time.Duration
		want      outcome
	}{
		{"a review", site.URL, ca, t.Context(), long, answered},
		{"status 500", site.URL + "/500", ca, t.Context(), long, answered},
		{"a body that does not end", site.URL + "/slow", ca, t.Context(), short, answered},
		{"a lost connection", site.URL + "/cut", ca, t.Context(), long, unclear},
		{"a client that has gone", site.URL + "/hang", ca, cancelled, long, unclear},
		{"no answer", site.URL + "/hang", ca, t.Context(), short, gone},
		{"no connection", closed.URL, ca, t.Context(), long, gone},
		{"TLS", site.URL, nil, t.Context(), long, gone},
	} {
		client, err := NewClients(Credentials{}, Dialers{}, nil, nil).of(newTarget(admissionv1.WebhookClientConfig{URL: &c.url, CABundle: c.ca}))
		if err != nil {
			t.Fatal(err)
		}
		if _, got, err := client.try(c.ctx, c.timeout, []byte("{}")); got != c.want {
			t.Errorf("%s: %d, want %d: %v", c.what, got, c.want, err)
		}
	}
}
