package kanzentest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/internal/chain/debug"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/process"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/server"
	"github.com/kanzen-io/kanzen/internal/server/planes"
	"github.com/kanzen-io/kanzen/internal/store/memory"
)

// Server is a running API server.
type Server struct {
	options Options
	cfg     *config.Plane
	ground  *process.Process
	plane   *server.Plane
	record  *record // nil: none is kept
	faults  *faults
	watches *watches
	etcd    *outage
	memory  *memory.DB // nil: the log is etcd
	settled bool       // the log began with what an empty cluster has
	// base is what Reset goes back to.
	base memory.Snapshot
	// first is the revision of the first objects of a cluster, which every server has; 0: it is not known.
	first int64
	stop  func() error

	fleet  *planes.Fleet // nil: there are no planes
	planes atomic.Int64  // how many there were
}

// Start starts a server and stops it when the test ends. It fails the test if the server does not come up. If the test
// fails, the record of requests and all objects are written to Options.FailureDir.
func Start(t testing.TB, options ...Option) *Server {
	t.Helper()
	s, err := New(context.WithoutCancel(t.Context()), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			s.explain(t)
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// New starts a server, for programs that have no test at hand: TestMain, benchmarks, anything that needs a control plane
// inside. It returns when the server is ready, and ends the server when ctx ends or Stop is called.
func New(ctx context.Context, options ...Option) (_ *Server, err error) {
	s := &Server{faults: newFaults(), watches: newWatches(), etcd: newOutage()}
	for _, o := range options {
		o(&s.options)
	}
	var undo []func() error
	s.stop = sync.OnceValue(func() error {
		var errs []error
		for n := len(undo) - 1; n >= 0; n-- {
			errs = append(errs, undo[n]())
		}
		return errors.Join(errs...)
	})
	defer func() {
		if err != nil {
			err = fmt.Errorf("kanzentest: %w", errors.Join(err, s.stop()))
		}
	}()
	root, seeded, err := s.configure(&undo)
	if err != nil {
		return nil, err
	}
	if err := s.open(ctx, root, seeded, &undo); err != nil {
		return nil, err
	}
	inside, leave := context.WithCancel(ctx) // calls of webhooks in this process
	s.plane = server.New(s.cfg, s.ground, s.withPlanes(s.seams(inside)))
	end := sync.OnceValue(func() error { leave(); return s.plane.Stop() })
	release := context.AfterFunc(ctx, func() { _ = end() }) // Stop returns it again
	undo = append(undo, func() error { release(); return end() })
	if err := s.begin(ctx, seeded); err != nil {
		return nil, err
	}
	return s, s.startPlanes(&undo)
}

// defaultStartTimeout bounds how long a server may take to come up, on a machine that has other things to do.
const defaultStartTimeout = time.Minute

// begin waits until the server is ready and has what it begins with.
func (s *Server) begin(ctx context.Context, seeded *seed) error {
	timeout := s.options.StartTimeout
	if timeout == 0 {
		timeout = defaultStartTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := s.plane.Start(ctx); err != nil {
		return fmt.Errorf("the server did not become ready: %w", err)
	}
	if err := s.settle(ctx, seeded); err != nil {
		return err
	}
	if s.memory != nil {
		var err error
		if s.first, err = s.memory.Head(ctx); err != nil {
			return err
		}
	}
	if err := s.install(ctx, s.options.Install...); err != nil {
		return err
	}
	s.forget()
	if s.memory != nil {
		s.base = s.memory.Snapshot()
	}
	return nil
}

// Stop ends the server: requests under way are answered, watches end, and what it had on disk is removed, except for a
// DataDir. Further calls return the same.
func (s *Server) Stop() error { return s.stop() }

// configure makes the server's settings. What is to be undone when the server ends is added to undo.
func (s *Server) configure(undo *[]func() error) (*config.Process, *seed, error) {
	o, cfg := &s.options, config.Standalone()
	cfg.UnsafeNoFsync, cfg.NoListener = true, true
	cfg.WarnWorkloads = false                                              // tests know that no controller runs
	cfg.FlightRecorderMemory, cfg.History, cfg.WebhookAdvice = 0, 0, false // many servers in a process; what is served is kube-apiserver's
	cfg.BindAddress, cfg.SecurePort = net.IPv4(127, 0, 0, 1), 0
	if o.Controllers != nil {
		cfg.Controllers = o.Controllers
	}
	flags := pflag.NewFlagSet("kanzen serve", pflag.ContinueOnError)
	cfg.AddFlags(flags, true)
	if err := flags.Parse(o.flags()); err != nil {
		return nil, nil, err
	}
	if o.Listen != "" {
		host, port, err := net.SplitHostPort(o.Listen)
		if err != nil {
			return nil, nil, fmt.Errorf("listen: %w", err)
		}
		cfg.NoListener = false
		if cfg.BindAddress = net.ParseIP(host); cfg.BindAddress == nil {
			return nil, nil, fmt.Errorf("listen on %s: %q is no address", o.Listen, host)
		}
		if cfg.SecurePort, err = strconv.Atoi(port); err != nil {
			return nil, nil, fmt.Errorf("listen on %s: %w", o.Listen, err)
		}
	}
	if len(o.EtcdServers) > 0 {
		cfg.EtcdServers = o.EtcdServers
	}
	cfg.DataDir = o.DataDir
	if cfg.DataDir == "" {
		dir, err := os.MkdirTemp("", "kanzentest-")
		if err != nil {
			return nil, nil, err
		}
		*undo = append(*undo, func() error { return os.RemoveAll(dir) })
		cfg.DataDir = dir
	}
	root, plane, err := cfg.Validate()
	if err != nil {
		return nil, nil, err
	}
	s.cfg = plane
	if o.DataDir == "" {
		if err := sharedParts().keys.writeTo(root); err != nil {
			return nil, nil, err
		}
	}
	if o.Etcd || o.DataDir != "" || len(root.EtcdServers) > 0 {
		return root, nil, nil
	}
	return root, sharedParts().seed(o), nil
}

// open opens what the server stands on.
func (s *Server) open(ctx context.Context, root *config.Process, from *seed, undo *[]func() error) (err error) {
	log := s.options.Log
	if log == nil {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	}
	given := process.Given{Shared: sharedParts().Shared, Clock: s.options.Clock.inner(), Around: s.etcd.around}
	if from != nil {
		s.memory, s.settled = from.log(given.Clock)
		*undo = append(*undo, s.memory.Close)
		given.DB = s.memory
	}
	if s.ground, err = process.OpenWith(ctx, root, log, debug.NewVerbosity(0), given); err != nil {
		return err
	}
	*undo = append(*undo, s.ground.Close)
	return nil
}

// seams are where the server lets the test take part.
func (s *Server) seams(ctx context.Context) server.Seams {
	out := server.Seams{Intervene: s.intervene}
	if !s.options.NoRecord {
		s.record = newRecord()
		out.Observe = s.observe
	}
	if h := s.options.Webhooks; h != nil {
		door := inprocess.NewDoor(ctx)
		door.Open(h)
		out.Webhook = webhooksBy(door.Transport(nil))
	}
	return out
}

// adminName is who Config acts as.
const adminName = "kubernetes-admin"

// Config reaches the server without a socket, as its administrator. The config's user can be changed by impersonation.
func (s *Server) Config() *rest.Config { return s.ConfigFor(adminName, user.SystemPrivilegedGroup) }

// ConfigFor reaches the server without a socket as some user, who is in system:authenticated too unless it is
// system:anonymous.
func (s *Server) ConfigFor(name string, groups ...string) *rest.Config {
	return &rest.Config{Host: "http://kanzen.in-process", Transport: s.Transport(userInfo(name, groups)), QPS: -1}
}

// Transport reaches the server without a socket as some user; a nil user lets the credentials in the requests speak.
func (s *Server) Transport(u user.Info) http.RoundTripper { return s.plane.Transport(u) }

// Address is host and port of the socket, "" without Listen.
func (s *Server) Address() string { return s.plane.Address() }

// Kubeconfig is the path of the administrator's kubeconfig, for programs that reach the server by its socket; "" without
// Listen.
func (s *Server) Kubeconfig() string {
	if s.Address() == "" {
		return ""
	}
	return s.plane.Kubeconfig()
}

// SocketConfig reaches the server by its socket, as its administrator. It needs Listen.
func (s *Server) SocketConfig() *rest.Config {
	f := s.plane.Files()
	return &rest.Config{
		Host:            "https://" + s.Address(),
		TLSClientConfig: rest.TLSClientConfig{CAFile: f.CACert, CertFile: f.AdminCert, KeyFile: f.AdminKey},
		QPS:             -1,
	}
}
