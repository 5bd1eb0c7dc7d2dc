package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/etcdhttp"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// Listen opens the embedded etcd to others, who need a certificate of its authority.
type Listen struct {
	// ClientURLs is where etcdctl and API servers connect, PeerURLs where other members do. All are https.
	ClientURLs, PeerURLs []url.URL
	// CA is the authority of all certificates. Cert and Key serve and connect to peers.
	CA, Cert, Key string
}

func (l *Listen) peerTLS() transport.TLSInfo {
	return transport.TLSInfo{CertFile: l.Cert, KeyFile: l.Key, TrustedCAFile: l.CA, ClientCertAuth: true}
}

// tls returns the settings of both sockets: nobody is let in without a certificate.
func (l *Listen) tls() (*tls.Config, error) {
	pem, err := os.ReadFile(l.CA)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("no certificates in %s", l.CA)
	}
	if _, err := tls.LoadX509KeyPair(l.Cert, l.Key); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { // read again, because it is renewed
			c, err := tls.LoadX509KeyPair(l.Cert, l.Key)
			return &c, err
		},
	}, nil
}

// ports are the open sockets.
type ports struct {
	secure         *tls.Config
	clients, peers []net.Listener
	rpc            *grpc.Server
	http           *http.Server
	serving        sync.WaitGroup
}

// open opens the sockets, before anything is changed on disk.
func (l *Listen) open() (_ *ports, err error) {
	p := &ports{}
	if l == nil {
		return p, nil
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close(nil))
		}
	}()
	if p.secure, err = l.tls(); err != nil {
		return nil, fmt.Errorf("etcd's certificates: %w", err)
	}
	listen := func(urls []url.URL) (out []net.Listener, err error) {
		for _, u := range urls {
			port, err := net.Listen("tcp", u.Host)
			if err != nil {
				return out, fmt.Errorf("etcd: %w", err)
			}
			out = append(out, port)
		}
		return out, nil
	}
	if p.clients, err = listen(l.ClientURLs); err != nil {
		return p, err
	}
	p.peers, err = listen(l.PeerURLs)
	return p, err
}

// peerTimeout bounds how long a peer may take to send a message.
const peerTimeout = 5 * time.Minute

// serve serves the sockets until they are closed.
func (p *ports) serve(srv *etcdserver.EtcdServer, l *Listen) {
	if l == nil {
		return
	}
	if len(p.clients) > 0 {
		p.rpc = v3rpc.Server(srv, p.secure, nil, grpc.WaitForHandlers(true)) // they read the database
		for _, c := range p.clients {
			p.serving.Go(func() { _ = p.rpc.Serve(c) }) // ends when it is stopped
		}
	}
	p.http = &http.Server{
		Handler: etcdhttp.NewPeerHandler(zap.NewNop(), srv), TLSConfig: p.secure.Clone(), ReadHeaderTimeout: 30 * time.Second, ReadTimeout: peerTimeout,
		ErrorLog: stdlog.New(io.Discard, "", 0),
	}
	p.http.Protocols = new(http.Protocols)
	p.http.Protocols.SetHTTP1(true) // as etcd's own peers
	p.http.TLSConfig.NextProtos = []string{"http/1.1"}
	for _, peer := range p.peers {
		p.serving.Go(func() { _ = p.http.ServeTLS(peer, "", "") })
	}
}

// close closes the sockets, and waits until nobody is served any more, or until the etcd behind them is broken (nil: it has
// not begun): calls that such a one serves do not end.
func (p *ports) close(broken <-chan struct{}) error {
	if p.http != nil {
		_ = p.http.Close()
	}
	for _, l := range append(p.clients, p.peers...) {
		_ = l.Close() // closed already, if it was served
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if p.rpc != nil {
			p.rpc.Stop()
		}
		p.serving.Wait()
	}()
	select {
	case <-ended:
	case <-broken:
	}
	return nil
}

// announce tells the cluster the addresses at which this member listens, if it knows others.
func (d *DB) announce(ctx context.Context, srv *etcdserver.EtcdServer, urls []url.URL) error {
	var want []string
	for _, u := range urls {
		want = append(want, u.String())
	}
	self := srv.Cluster().Member(srv.MemberID())
	if len(want) == 0 || self == nil || len(self.PeerURLs) == len(want) && self.PeerURLs[0] == want[0] {
		return nil
	}
	_, err := d.Client.MemberUpdate(ctx, uint64(srv.MemberID()), want)
	return err
}
