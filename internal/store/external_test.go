package store

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
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/kanzen-io/kanzen/internal/store/etcd"
)

// external is an etcd server behind sockets, in this process, with a proxy
// before it whose connections can be cut.
type external struct {
	t     testing.TB
	dir   string
	tls   transport.TLSInfo
	etcd  *embed.Etcd
	front net.Listener

	mu    sync.Mutex
	down  bool
	conns map[net.Conn]bool
}

func startExternal(t testing.TB, secure bool) *external {
	t.Helper()
	x := &external{t: t, dir: t.TempDir(), conns: map[net.Conn]bool{}}
	if secure {
		info, err := transport.SelfCert(zap.NewNop(), filepath.Join(x.dir, "pki"), []string{"127.0.0.1:0"}, 1)
		if err != nil {
			t.Fatal(err)
		}
		x.tls = info
	}
	var err error
	if x.front, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	x.start()
	var serving sync.WaitGroup
	serving.Go(func() { x.serve(&serving) })
	t.Cleanup(func() {
		_ = x.front.Close()
		x.stop()
		serving.Wait()
	})
	return x
}

func (x *external) start() {
	c := embed.NewConfig()
	c.Dir = filepath.Join(x.dir, "data")
	c.LogLevel, c.LogOutputs = "panic", []string{os.DevNull}
	c.UnsafeNoFsync = true
	c.TickMs, c.ElectionMs = 10, 100
	local := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	c.ListenPeerUrls, c.AdvertisePeerUrls = local, local
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.ClientTLSInfo = x.tls
	if !x.tls.Empty() {
		local = []url.URL{{Scheme: "https", Host: "127.0.0.1:0"}}
	}
	c.ListenClientUrls, c.AdvertiseClientUrls = local, local
	e, err := embed.StartEtcd(c)
	if err != nil {
		x.t.Fatal(err)
	}
	<-e.Server.ReadyNotify()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.etcd, x.down = e, false
}

func (x *external) stop() {
	x.mu.Lock()
	x.down = true
	x.mu.Unlock()
	x.cut()
	x.etcd.Close()
}

// restart stops etcd and starts it on the same data.
func (x *external) restart() {
	x.stop()
	x.start()
}

// cut closes the connections of all clients.
func (x *external) cut() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for c := range x.conns {
		_ = c.Close()
	}
}

func (x *external) serve(wg *sync.WaitGroup) {
	for {
		client, err := x.front.Accept()
		if err != nil {
			return
		}
		x.mu.Lock()
		var server net.Conn
		if !x.down {
			server, err = net.Dial("tcp", x.etcd.Clients[0].Addr().String())
		}
		if server == nil || err != nil {
			_ = client.Close()
			x.mu.Unlock()
			continue
		}
		x.conns[client], x.conns[server] = true, true
		x.mu.Unlock()
		wg.Go(func() { x.pipe(client, server) })
		wg.Go(func() { x.pipe(server, client) })
	}
}

func (x *external) pipe(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range []net.Conn{to, from} {
		_ = c.Close()
		delete(x.conns, c)
	}
}

// dial connects to the proxy.
func (x *external) dial() closingDB {
	x.t.Helper()
	c := etcd.Cluster{Endpoints: []string{x.front.Addr().String()}}
	if !x.tls.Empty() {
		pem, err := os.ReadFile(x.tls.CertFile)
		if err != nil {
			x.t.Fatal(err)
		}
		c.TLS = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
		c.TLS.RootCAs.AppendCertsFromPEM(pem)
		c.Endpoints[0] = "https://" + c.Endpoints[0]
	}
	db, err := etcd.Dial(c)
	if err != nil {
		x.t.Fatal(err)
	}
	return db
}

// TestExternal does one of everything over TLS, across a restart of etcd.
func TestExternal(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(map[bool]string{false: "plain", true: "tls"}[secure], func(t *testing.T) {
			x := startExternal(t, secure)
			s := run(t, x.dial())
			v := s.View(things)
			a := create(t, v, "a", "1")
			w, err := v.Watch(t.Context(), WatchOptions{After: a.Rev - 1})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			if got := take(t, w, 1); got[0] != "+a=1" {
				t.Errorf("got %v", got)
			}
			if _, err := s.Size(t.Context()); err != nil {
				t.Error(err)
			}
			x.restart()
			eventually(t, func() bool { return s.Ping(t.Context()) == nil })
			update(t, v, a, "2")
			if got := take(t, w, 1); got[0] != "a=1>2" {
				t.Errorf("got %v", got)
			}
			fresh(t, s)
		})
	}
}

// eventually waits for what has no event to wait for.
func eventually(t testing.TB, ok func() bool) {
	t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("it did not come to be")
}
