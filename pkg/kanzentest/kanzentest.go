// Package kanzentest gives a Go test a whole Kubernetes API server in its own
// process, in milliseconds: real storage, admission, authorization, watches,
// namespace deletion and default service accounts, and nothing to download.
//
//	func TestController(t *testing.T) {
//		s := kanzentest.Start(t)
//		client := kubernetes.NewForConfigOrDie(s.Config())
//		...
//	}
//
// Servers are independent of each other: tests may run in parallel, each with
// its own.
package kanzentest

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/internal/config"
	"github.com/kanzen-io/kanzen/internal/debug"
	"github.com/kanzen-io/kanzen/internal/server"
)

// Server is a running API server.
type Server struct {
	server  *server.Server
	dataDir string
}

// Option changes how a server is started.
type Option func(*config.Config)

// Controllers runs these controllers in the server, as --controllers spells
// them; without the option all that kanzen has run. None runs none.
func Controllers(names ...string) Option {
	return func(c *config.Config) { c.Controllers = names }
}

// DataDir keeps the server's data in a directory of the caller's, so that a
// later Start finds it again. Without it data goes with the test.
func DataDir(dir string) Option {
	return func(c *config.Config) { c.DataDir = dir }
}

// Etcd uses an etcd cluster in the place of the one inside the server.
func Etcd(endpoints ...string) Option {
	return func(c *config.Config) { c.EtcdServers = endpoints }
}

// Listen also serves on a port of the loopback interface, which the system chooses.
func Listen() Option {
	return func(c *config.Config) { c.NoListener = false }
}

// startTimeout bounds how long a server may take to come up.
const startTimeout = 30 * time.Second

// Start starts a server and stops it when the test ends. It fails the test if
// the server does not come up.
func Start(t testing.TB, options ...Option) *Server {
	t.Helper()
	cfg := config.Standalone()
	cfg.DataDir = t.TempDir()
	cfg.UnsafeNoFsync = true
	cfg.NoListener = true
	cfg.WarnWorkloads = false // tests know that no controller runs
	cfg.BindAddress = net.IPv4(127, 0, 0, 1)
	cfg.SecurePort = 0
	for _, o := range options {
		o(&cfg)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	ctx, cancel := context.WithCancel(context.Background())
	ground, err := server.Open(ctx, &cfg, log, debug.NewVerbosity(0))
	if err != nil {
		cancel()
		t.Fatalf("kanzentest: %v", err)
	}
	s, err := server.New(ctx, &cfg, ground)
	if err != nil {
		cancel()
		t.Fatalf("kanzentest: %v", errors.Join(err, ground.Close()))
	}
	done := make(chan error, 1)
	go func() { done <- errors.Join(s.Run(ctx), ground.Close()) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("kanzentest: %v", err)
		}
	})
	select {
	case <-s.Ready():
	case err := <-done:
		done <- nil
		t.Fatalf("kanzentest: the server ended: %v", err)
	case <-time.After(startTimeout):
		t.Fatalf("kanzentest: the server is not ready after %v", startTimeout)
	}
	return &Server{server: s, dataDir: cfg.DataDir}
}

// admin is who Config acts as.
var admin = &user.DefaultInfo{Name: "kubernetes-admin", Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}

// Config reaches the server without a socket, as its administrator. The
// config's user can be changed by impersonation.
func (s *Server) Config() *rest.Config { return s.ConfigFor(admin.Name, admin.Groups...) }

// ConfigFor reaches the server without a socket as some user.
func (s *Server) ConfigFor(name string, groups ...string) *rest.Config {
	u := &user.DefaultInfo{Name: name, Groups: groups}
	return &rest.Config{
		Host:      "http://kanzen.in-process",
		Transport: s.Transport(u),
		QPS:       -1,
	}
}

// Transport reaches the server without a socket as some user; a nil user lets
// the credentials in the requests speak.
func (s *Server) Transport(u user.Info) http.RoundTripper { return s.server.Transport(u) }

// Address is host and port of the socket, "" without Listen.
func (s *Server) Address() string { return s.server.Address() }

// Kubeconfig is the path of the administrator's kubeconfig, for programs that
// reach the server by its socket.
func (s *Server) Kubeconfig() string { return s.server.Kubeconfig() }

// SocketConfig reaches the server by its socket, as its administrator. It
// needs Listen.
func (s *Server) SocketConfig() *rest.Config {
	f := s.server.Files()
	return &rest.Config{
		Host: "https://" + s.Address(),
		TLSClientConfig: rest.TLSClientConfig{
			CAFile: f.CACert, CertFile: f.AdminCert, KeyFile: f.AdminKey,
		},
		QPS: -1,
	}
}
