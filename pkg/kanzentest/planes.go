package kanzentest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/internal/server"
	"github.com/kanzen-io/kanzen/internal/server/planes"
)

// This file gives each test a control plane of its own, of one server for all.

// Planes lets the server have planes: control planes below it (see Server.Plane). Their webhooks may be on this machine, and they do
// not go to sleep.
func Planes() Option {
	return func(o *Options) { o.Flags = append(o.Flags, "--planes", "--planes-idle=0", "--planes-dial-local") }
}

// Plane is a control plane below a Server.
type Plane struct {
	// Name is that of its object in the server.
	Name  string
	fleet *planes.Fleet
}

// Plane creates a control plane that has nothing in common with others, and deletes it when the test ends. The server must have been
// started with Planes. It takes a few milliseconds; the first one of a server takes longer.
func (s *Server) Plane(t testing.TB) *Plane {
	t.Helper()
	p, err := s.NewPlane(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Delete(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return p
}

// NewPlane is Plane for programs that have no test at hand. Delete deletes it.
func (s *Server) NewPlane(ctx context.Context) (*Plane, error) {
	if s.fleet == nil {
		return nil, fmt.Errorf("kanzentest: the server has no planes; start it with kanzentest.Planes()")
	}
	p := &Plane{Name: fmt.Sprint("plane-", s.planes.Add(1)), fleet: s.fleet}
	if err := s.fleet.Create(ctx, p.Name); err != nil {
		return nil, fmt.Errorf("kanzentest: %w", err)
	}
	return p, nil
}

// Delete deletes the plane, and returns when nothing of it is left.
func (p *Plane) Delete(ctx context.Context) error { return p.fleet.Delete(ctx, p.Name) }

// Config reaches the plane without a socket, as its administrator. The config's user can be changed by impersonation.
func (p *Plane) Config() *rest.Config { return p.ConfigFor(adminName, user.SystemPrivilegedGroup) }

// ConfigFor reaches the plane without a socket as some user, as Server.ConfigFor reaches the server.
func (p *Plane) ConfigFor(name string, groups ...string) *rest.Config {
	return &rest.Config{Host: "http://kanzen.in-process", Transport: p.Transport(userInfo(name, groups)), QPS: -1}
}

// Transport reaches the plane without a socket as some user; a nil user lets the credentials in the requests speak.
func (p *Plane) Transport(u user.Info) http.RoundTripper { return p.fleet.Transport(p.Name, u) }

// Kubeconfig is that of the plane's administrator, for programs that reach it by the server's socket (Listen).
func (p *Plane) Kubeconfig(ctx context.Context) ([]byte, error) {
	data, reason, err := p.fleet.Kubeconfig(ctx, p.Name)
	if err == nil && data == nil {
		err = fmt.Errorf("kanzentest: %s is not ready: %s", p.Name, reason)
	}
	return data, err
}

// startPlanes starts the fleet if the settings ask for it.
func (s *Server) startPlanes(undo *[]func() error) error {
	if s.fleet == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.fleet.Run(ctx, s.plane) }()
	*undo = append(*undo, func() error {
		err := s.fleet.Stop()
		cancel()
		if run := <-ended; err == nil && run != nil && !strings.Contains(run.Error(), context.Canceled.Error()) {
			err = run
		}
		return err
	})
	return nil
}

// withPlanes puts a fleet in front of the server if the settings ask for it.
func (s *Server) withPlanes(own server.Seams) server.Seams {
	if s.ground.Root.Planes {
		s.fleet = planes.New(s.cfg, s.ground, server.Seams{Webhook: own.Webhook})
		own.Front, own.Planes, own.Transfers, own.Admit = s.fleet.Front, s.fleet, s.fleet.ServeTransfer, s.fleet.Admit()
	}
	return own
}
