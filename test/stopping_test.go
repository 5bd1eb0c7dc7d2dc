package test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// TestStopping has a request wait for its body while the server is told to stop. Other requests, of the same connection too, are
// refused from then on, by a closed port or, if it was asked for, by 429; the one that waits is answered.
func TestStopping(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"closed port": nil, "429": {"--shutdown-send-retry-after"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := serve(t, t.TempDir(), args...)
			client, err := rest.HTTPClientFor(k.config())
			must(t, err)
			get := func() (int, error) {
				resp, err := client.Get("https://" + k.address + "/version")
				if err != nil {
					return 0, err
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				return resp.StatusCode, resp.Body.Close()
			}
			if code, err := get(); code != http.StatusOK {
				t.Fatal(code, err)
			}
			body, more := io.Pipe()
			reading := make(chan struct{})
			traced := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { close(reading) }})
			req, err := http.NewRequestWithContext(traced, http.MethodPost, "https://"+k.address+"/api/v1/namespaces", body)
			must(t, err)
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Expect", "100-continue")
			answered := make(chan string, 1)
			go func() {
				resp, err := client.Do(req)
				if err != nil {
					answered <- err.Error()
					return
				}
				b, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				answered <- resp.Status + " " + string(b)
			}()
			if _, err := more.Write([]byte(`{"apiVersion":"v1","kind":"Namespace",`)); err != nil {
				t.Fatal(err)
			}
			<-reading // the server has begun with the request
			must(t, k.cmd.Process.Signal(syscall.SIGTERM))
			within(t, 20*time.Second, "new requests are refused", func(context.Context) bool {
				code, err := get()
				return err != nil && args == nil || code == http.StatusTooManyRequests && args != nil
			})
			_, err = more.Write([]byte(`"metadata":{"name":"last"}}`))
			must(t, err)
			must(t, more.Close())
			if got := <-answered; !strings.HasPrefix(got, "201 ") {
				t.Errorf("the request under way: %s", got)
			}
			if code := k.exit(); code != 0 {
				t.Errorf("exit code %d: %s", code, k.stderr.String())
			}
		})
	}
}
