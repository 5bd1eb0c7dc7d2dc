package balancer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/test/machine"
)

// TestBalancer passes a connection on to a server that is ready, and closes it when the server is gone.
func TestBalancer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := New()
	b.Start(ctx, listener)
	server := func(name string, code int) *httptest.Server {
		return httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			fmt.Fprint(w, name)
		}))
	}
	unready, good := server("unready", http.StatusInternalServerError), server("good", http.StatusOK)
	defer unready.Close()
	defer good.Close()
	client := good.Client()
	ask := func(context.Context) error {
		response, err := client.Get("https://" + listener.Addr().String())
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if text, err := io.ReadAll(response.Body); err != nil || string(text) != "good" {
			return fmt.Errorf("%q, %w", text, errors.Join(err, errors.New("not the good one")))
		}
		return nil
	}
	if ask(ctx) == nil {
		t.Error("there is no server, and one has answered")
	}
	b.Add(ctx, unready.Listener.Addr().String())
	b.Add(ctx, good.Listener.Addr().String())
	if err := machine.Eventually(ctx, 10*time.Second, "the ready server answers", ask); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		client.CloseIdleConnections()
		if err := ask(ctx); err != nil {
			t.Error(err)
		}
	}
	good.Close()
	if err := machine.Eventually(ctx, 10*time.Second, "no server answers", func(ctx context.Context) error {
		if ask(ctx) == nil {
			return errors.New("one has")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
