package test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// A server that starts again must not turn away whom it knows: a client that
// gets 401 or 403 takes it for the truth. Until the server can tell, it waits.
func TestNobodyIsTurnedAwayWhileStarting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k := serve(t, dir)
	if _, err := k.client().CoreV1().Namespaces().Create(t.Context(), namespace(churnNamespace), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(allowReading(t, k))
	if err != nil {
		t.Fatal(err)
	}
	url := "https://" + k.address + "/api/v1/namespaces/" + churnNamespace + "/configmaps"
	within(t, 10*time.Second, "the role counts", func(ctx context.Context) bool { return healthy(ctx, client, url) })

	var answers [600]atomic.Int64
	ended := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
				if err != nil {
					t.Error(err)
					return
				}
				resp, err := client.Do(req)
				if err != nil {
					time.Sleep(time.Millisecond) // nobody is there
					continue
				}
				answers[resp.StatusCode].Add(1)
				resp.Body.Close()
			}
		})
	}
	for range 5 {
		k.end(syscall.SIGTERM)
		k = serve(t, dir, "--secure-port="+k.port())
		begin := answers[http.StatusOK].Load()
		within(t, 10*time.Second, "answers after the start", func(context.Context) bool { return answers[http.StatusOK].Load() > begin+10 })
	}
	close(ended)
	wg.Wait()
	for code := range answers {
		if n := answers[code].Load(); n > 0 {
			t.Logf("%d answers with code %d", n, code)
			if code == http.StatusUnauthorized || code == http.StatusForbidden || code == http.StatusNotFound || code == http.StatusInternalServerError {
				t.Errorf("%d answers with code %d", n, code)
			}
		}
	}
}
