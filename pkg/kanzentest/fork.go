package kanzentest

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/internal/server"
)

// This file gives each test a copy of a server that was set up once.

// Fork is a copy of a Server, as it was when the fork was made. What is written to one is not seen in the other.
type Fork struct{ fork *server.Fork }

// Fork makes a copy of the server, with everything that is in it now, and ends it when the test ends. It takes some ten milliseconds,
// however much is in the server, and copies nothing. Its webhooks are those of the server; extension servers are not part of it. It
// has no socket.
func (s *Server) Fork(t testing.TB) *Fork {
	t.Helper()
	f, err := s.NewFork(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Stop(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// NewFork is Fork for programs that have no test at hand. Stop ends it; the server must not be stopped before.
func (s *Server) NewFork(ctx context.Context) (*Fork, error) {
	f, err := s.plane.Fork(ctx, server.ForkOptions{Controllers: s.cfg.Controllers})
	if err != nil {
		return nil, fmt.Errorf("kanzentest: %w", err)
	}
	if err := f.Start(context.WithoutCancel(ctx)); err != nil {
		return nil, fmt.Errorf("kanzentest: %w", err)
	}
	return &Fork{f}, nil
}

// Stop ends the fork.
func (f *Fork) Stop() error { return f.fork.Stop() }

// Fork makes a copy of the fork, as Server.Fork does of a server.
func (f *Fork) Fork(t testing.TB) *Fork {
	t.Helper()
	inner, err := f.fork.Fork(t.Context(), server.ForkOptions{Controllers: f.fork.Controllers()})
	if err == nil {
		err = inner.Start(context.WithoutCancel(t.Context()))
	}
	if err != nil {
		t.Fatalf("kanzentest: %v", err)
	}
	t.Cleanup(func() {
		if err := inner.Stop(); err != nil {
			t.Error(err)
		}
	})
	return &Fork{inner}
}

// Config reaches the fork without a socket, as its administrator. The config's user can be changed by impersonation.
func (f *Fork) Config() *rest.Config { return f.ConfigFor(adminName, user.SystemPrivilegedGroup) }

// ConfigFor reaches the fork without a socket as some user, as Server.ConfigFor reaches the server.
func (f *Fork) ConfigFor(name string, groups ...string) *rest.Config {
	return &rest.Config{Host: "http://kanzen.in-process", Transport: f.Transport(userInfo(name, groups)), QPS: -1}
}

// Transport reaches the fork without a socket as some user; a nil user lets the credentials in the requests speak.
func (f *Fork) Transport(u user.Info) http.RoundTripper { return f.fork.Transport(u) }
