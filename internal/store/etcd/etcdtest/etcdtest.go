// Package etcdtest runs etcd servers behind sockets, for tests.
package etcdtest

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/kanzen-io/kanzen/internal/store/etcd"
)

// Server is an etcd server behind sockets, in this process, with a proxy
// before it whose connections can be cut.
type Server struct {
	t     testing.TB
	dir   string
	tls   transport.TLSInfo
	etcd  *embed.Etcd
	front net.Listener

	mu    sync.Mutex
	down  bool
	conns map[net.Conn]bool
}

// Start starts an etcd server that ends with the test, with TLS if it is secure.
func Start(t testing.TB, secure bool) *Server {
	t.Helper()
	s := &Server{t: t, dir: t.TempDir(), conns: map[net.Conn]bool{}}
	if secure {
		info, err := transport.SelfCert(zap.NewNop(), filepath.Join(s.dir, "pki"), []string{"127.0.0.1:0"}, 1)
		if err != nil {
			t.Fatal(err)
		}
		s.tls = info
	}
	var err error
	if s.front, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	s.Start()
	var serving sync.WaitGroup
	serving.Go(func() { s.serve(&serving) })
	t.Cleanup(func() {
		_ = s.front.Close()
		s.Stop()
		serving.Wait()
	})
	return s
}

// Start starts the server on its data, after Stop.
func (s *Server) Start() {
	c := embed.NewConfig()
	c.Dir = filepath.Join(s.dir, "data")
	c.LogLevel, c.LogOutputs = "panic", []string{os.DevNull}
	c.UnsafeNoFsync = true
	c.GRPCAdditionalServerOptions = []grpc.ServerOption{grpc.WaitForHandlers(true)} // watches read the database
	c.TickMs, c.ElectionMs = 10, 100
	local := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	c.ListenPeerUrls, c.AdvertisePeerUrls = local, local
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.ClientTLSInfo = s.tls
	if !s.tls.Empty() {
		local = []url.URL{{Scheme: "https", Host: "127.0.0.1:0"}}
	}
	c.ListenClientUrls, c.AdvertiseClientUrls = local, local
	e, err := embed.StartEtcd(c)
	if err != nil {
		s.t.Fatal(err)
	}
	<-e.Server.ReadyNotify()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.etcd, s.down = e, false
}

// Stop stops the server and closes the connections of all clients.
func (s *Server) Stop() {
	s.mu.Lock()
	s.down = true
	s.mu.Unlock()
	s.Cut()
	s.etcd.Close()
}

// Restart stops etcd and starts it on the same data.
func (s *Server) Restart() {
	s.Stop()
	s.Start()
}

// Cut closes the connections of all clients.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.Close()
	}
}

func (s *Server) serve(wg *sync.WaitGroup) {
	for {
		client, err := s.front.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		var server net.Conn
		if !s.down {
			server, err = net.Dial("tcp", s.etcd.Clients[0].Addr().String())
		}
		if server == nil || err != nil {
			_ = client.Close()
			s.mu.Unlock()
			continue
		}
		s.conns[client], s.conns[server] = true, true
		s.mu.Unlock()
		wg.Go(func() { s.pipe(client, server) })
		wg.Go(func() { s.pipe(server, client) })
	}
}

func (s *Server) pipe(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range []net.Conn{to, from} {
		_ = c.Close()
		delete(s.conns, c)
	}
}

// Address is that of the proxy.
func (s *Server) Address() string { return s.front.Addr().String() }

// CertFile has the certificate of a secure server, which is its own authority.
func (s *Server) CertFile() string { return s.tls.CertFile }

// Dial connects to the server, by way of the proxy.
func (s *Server) Dial() *etcd.DB {
	s.t.Helper()
	c := etcd.Cluster{Endpoints: []string{s.Address()}}
	if !s.tls.Empty() {
		pem, err := os.ReadFile(s.CertFile())
		if err != nil {
			s.t.Fatal(err)
		}
		c.TLS = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
		c.TLS.RootCAs.AppendCertsFromPEM(pem)
		c.Endpoints[0] = "https://" + c.Endpoints[0]
	}
	db, err := etcd.Dial(c)
	if err != nil {
		s.t.Fatal(err)
	}
	return db
}
