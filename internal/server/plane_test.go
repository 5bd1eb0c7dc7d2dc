package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// A control plane is the same after it was stopped and started: its address, its objects, and transports to it.
func TestPlaneStartsAgain(t *testing.T) {
	g := newGround(t)
	p := planeOn(t, g.settings(), g.Process)
	stopped := func() {
		t.Helper()
		if _, err := p.Transport(masters).RoundTrip(get(t, "/readyz")); !errors.Is(err, ErrStopped) {
			t.Errorf("a request to a stopped one: %v", err)
		}
		if p.Address() != "" || p.Kubeconfig() != "" {
			t.Errorf("a stopped one is at %q, %q", p.Address(), p.Kubeconfig())
		}
		select {
		case <-p.Done():
		default:
			t.Error("a stopped one is not done")
		}
		if err := p.Stop(); err != nil {
			t.Errorf("stopped again: %v", err)
		}
	}
	stopped()
	address := ""
	for n := range 3 {
		for range 2 { // the second Start has nothing to do
			if err := p.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		occupy(t, p, n)
		if address == "" {
			address = p.Address()
		}
		if p.Address() != address {
			t.Errorf("it listens on %s, and on %s before", p.Address(), address)
		}
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		if err := p.Stop(); err != nil {
			t.Fatal(err)
		}
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			t.Error("the port of a stopped one is open")
		}
		stopped()
	}
}

// A start that is not wanted any more ends as a stop does, whoever says so.
func TestPlaneStopsWhileItStarts(t *testing.T) {
	g := newGround(t)
	p := planeOn(t, g.settings(), g.Process)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	if err := p.Start(ctx); !errors.Is(err, gone) && !errors.Is(err, context.Canceled) {
		t.Errorf("a start without time: %v", err)
	}
	started := make(chan error, 1)
	go func() { started <- p.Start(t.Context()) }()
	for p.serving.Load() == nil {
		time.Sleep(time.Millisecond)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	if err := <-started; err != nil && !errors.Is(err, ErrStopped) { // it may have been faster
		t.Errorf("a start that was stopped: %v", err)
	}
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(ctx); err != nil && !errors.Is(err, gone) {
		t.Errorf("a second start without time: %v", err)
	}
	if resp, err := p.Transport(masters).RoundTrip(get(t, "/readyz")); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("after that: %v, %v", resp, err)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

// Settings that are wrong are an error of each start, and nothing is left of it.
func TestPlaneFailsToStart(t *testing.T) {
	g := newGround(t)
	cfg := g.settings()
	cfg.AuditPolicyFile, cfg.AuditLog.Path = "/does/not/exist", "-"
	p := planeOn(t, cfg, g.Process)
	for range 2 {
		if err := p.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "/does/not/exist") {
			t.Errorf("%v", err)
		}
	}
	good := planeOn(t, g.settings(), g.Process) // the port is free
	if err := errors.Join(good.Start(t.Context()), good.Stop()); err != nil {
		t.Error(err)
	}
}

// Anyone may start and stop it at any time.
func TestPlaneByMany(t *testing.T) {
	g := newGround(t)
	p := planeOn(t, g.settings(), g.Process)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 3 {
				if err := p.Start(t.Context()); err != nil && !errors.Is(err, ErrStopped) {
					t.Error(err)
				}
				p.Address()
				if err := p.Stop(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if p.serving.Load() != nil {
		t.Error("it still serves")
	}
}

func get(t *testing.T, path string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://kanzen"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
