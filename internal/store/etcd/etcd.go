// Package etcd is the store's log in etcd: one embedded in this process, or a
// cluster elsewhere. Callers use the same client for both. The two differ only
// in how they learn the newest revision.
package etcd

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"

	"github.com/kanzen-io/kanzen/internal/span/rpc"
)

// maxRequestBytes is the largest write that the embedded etcd accepts. Clusters
// have their own limit (1.5 MiB by default), which a replacement must not silently
// exceed.
const maxRequestBytes = 1536 << 10

// reachTimeout bounds looking for the reason why a cluster does not answer.
const reachTimeout = 3 * time.Second

// DB is an open etcd.
type DB struct {
	Client *clientv3.Client
	head   func(ctx context.Context) (int64, error)
	size   func(ctx context.Context) (int64, error)
	close  func() error
	// reach is how servers of a cluster are connected to; nil: etcd is embedded.
	reach func(ctx context.Context) error
	quota func(ctx context.Context) (used, quota int64, err error)

	streams atomic.Uint64 // numbers the watches
}

// Head returns a revision that is at least as new as every write acknowledged
// before the call.
func (d *DB) Head(ctx context.Context) (int64, error) { return d.head(ctx) }

// Size returns the bytes of the database.
func (d *DB) Size(ctx context.Context) (int64, error) { return d.size(ctx) }

// Ping returns an error if etcd does not accept requests.
func (d *DB) Ping(ctx context.Context) error {
	_, err := d.Client.Get(ctx, "health", clientv3.WithSerializable())
	return err
}

// Close closes the connection and stops the embedded server.
func (d *DB) Close() error { return d.close() }

// Cluster says which etcd cluster to use and how.
type Cluster struct {
	Endpoints []string
	TLS       *tls.Config // nil: plain TCP
	// Dial connects to the servers; nil: a plain dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Dial connects to a cluster. It does not wait for the cluster to answer;
// requests wait, as long as their contexts allow.
func Dial(c Cluster) (*DB, error) {
	options := []grpc.DialOption{
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second},
			MinConnectTimeout: 3 * time.Second,
		}),
		grpc.WithChainUnaryInterceptor(rpc.Unary),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
	}
	if c.Dial != nil {
		options = append(options, grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return c.Dial(ctx, "tcp", addr) }))
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            c.Endpoints,
		TLS:                  c.TLS,
		DialTimeout:          20 * time.Second,
		DialKeepAliveTime:    30 * time.Second,
		DialKeepAliveTimeout: 10 * time.Second,
		MaxCallSendMsgSize:   8 << 20,
		Logger:               zap.NewNop(),
		DialOptions:          options,
	})
	if err != nil {
		return nil, fmt.Errorf("connect to etcd at %v: %w", c.Endpoints, err)
	}
	heads := &batcher{fetch: func(ctx context.Context) (int64, error) {
		// A linearizable read of a key that does not exist: the header of the
		// answer carries the revision, and there is no other data.
		r, err := client.Get(ctx, "/", clientv3.WithCountOnly())
		if err != nil {
			return 0, err
		}
		return r.Header.Revision, nil
	}}
	return &DB{
		Client: client,
		head:   heads.get,
		size: func(ctx context.Context) (int64, error) {
			s, err := client.Status(ctx, c.Endpoints[0])
			if err != nil {
				return 0, err
			}
			return s.DbSize, nil
		},
		close: client.Close,
		reach: c.reach,
		quota: func(ctx context.Context) (used, quota int64, err error) {
			s, err := client.Status(ctx, c.Endpoints[0])
			if err != nil {
				return 0, 0, err
			}
			return s.DbSize, s.DbSizeQuota, nil
		},
	}, nil
}
