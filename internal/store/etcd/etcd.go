// Package etcd is the store's log in etcd: one embedded in this process, or a
// cluster elsewhere. Callers use the same client for both. The two differ only
// in how they learn the newest revision.
package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"

	"github.com/kanzen-io/kanzen/internal/base/space"
	"github.com/kanzen-io/kanzen/internal/base/span/rpc"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// maxRequestBytes is the largest write that the embedded etcd accepts. Clusters
// have their own limit (1.5 MiB by default), which a replacement must not silently
// exceed.
const maxRequestBytes = 1536 << 10

// maxSend is the largest request that is sent to a cluster, as kube-apiserver's: etcd takes no more, and cuts the request off in
// other words than those for a value that is too large.
const maxSend = 2 << 20

// reachTimeout bounds looking for the reason why a cluster does not answer.
const reachTimeout = 3 * time.Second

// DB is an open etcd.
type DB struct {
	Client *clientv3.Client
	head   func(ctx context.Context) (int64, error)
	size   func(ctx context.Context) (kv.Size, error)
	close  func() error
	leases *leaser
	// source begins a watch.
	source func(ctx context.Context, w kv.Watch) (source, error)
	// reach is how servers of a cluster are connected to; nil: etcd is embedded.
	reach func(ctx context.Context) error
	// alarms returns etcd's alarms, by name.
	alarms func(ctx context.Context) ([]string, error)
	// Of the embedded etcd; nil with a cluster.
	broken  *breakage
	disk    *space.Reserve
	backend backend.Backend
}

// maxTxnOps is how many operations a transaction of the embedded etcd may have.
const maxTxnOps = 4096

// MaxOps is part of store.DB. Of a cluster it is etcd's default.
func (d *DB) MaxOps() int {
	if d.reach == nil {
		return maxTxnOps
	}
	return kv.MaxOps
}

// Head returns a revision that is at least as new as every write acknowledged
// before the call.
func (d *DB) Head(ctx context.Context) (int64, error) {
	if err := d.broken.err(); err != nil {
		return 0, err // what is left of a broken etcd may hold its locks for ever
	}
	return d.head(ctx)
}

// Size returns the size of the database.
func (d *DB) Size(ctx context.Context) (kv.Size, error) { return d.size(ctx) }

// Ping returns an error if etcd does not accept requests. It asks what a quorum of members must answer: one member
// alone would go on to serve reads of the past.
func (d *DB) Ping(ctx context.Context) error {
	if err := d.broken.err(); err != nil {
		return err
	}
	_, err := d.linearized(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("etcd does not answer in time; it is slow, cannot be reached or has lost its quorum: %w", err)
	}
	return err
}

// Broken is closed when the embedded etcd cannot go on; Err says why. It is nil with a cluster.
func (d *DB) Broken() <-chan struct{} {
	if d.broken == nil {
		return nil
	}
	return d.broken.happened
}

// Err is why the embedded etcd cannot go on.
func (d *DB) Err() error { return d.broken.err() }

// linearized asks for the newest revision, by a linearizable read of a key that does not exist: the header of the answer
// carries the revision, and there is no other data.
func (d *DB) linearized(ctx context.Context) (int64, error) {
	r, err := d.get(ctx, "/", clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return r.Header.Revision, nil
}

// Close closes the connection and stops the embedded server.
func (d *DB) Close() error { return d.close() }

// Cluster says which etcd cluster to use and how.
type Cluster struct {
	Endpoints []string
	TLS       *tls.Config // nil: plain TCP
	// Dial connects to the servers; nil: a plain dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Registry gets the metrics of the connection. Optional.
	Registry prometheus.Registerer
	// LeaseSizes is told how many keys shared a lease. Optional.
	LeaseSizes prometheus.Observer
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
	if c.Registry != nil {
		calls := grpcprom.NewClientMetrics()
		var before prometheus.AlreadyRegisteredError
		if err := c.Registry.Register(calls); errors.As(err, &before) { // by the connection to another cluster
			calls = before.ExistingCollector.(*grpcprom.ClientMetrics)
		} else if err != nil {
			return nil, err
		}
		options = append(options, grpc.WithChainUnaryInterceptor(calls.UnaryClientInterceptor()), grpc.WithChainStreamInterceptor(calls.StreamClientInterceptor()))
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
		MaxCallSendMsgSize:   maxSend,
		Logger:               zap.NewNop(),
		DialOptions:          options,
	})
	if err != nil {
		return nil, fmt.Errorf("connect to etcd at %v: %w", c.Endpoints, err)
	}
	d := &DB{Client: client, close: client.Close, leases: newLeaser(client, c.LeaseSizes)}
	d.head = (&batcher{fetch: d.linearized}).get
	d.source = func(ctx context.Context, w kv.Watch) (source, error) { return watchRemote(ctx, client, w) }
	d.size = func(ctx context.Context) (kv.Size, error) {
		s, err := client.Status(ctx, c.Endpoints[0])
		if err != nil {
			return kv.Size{}, err
		}
		return kv.Size{Bytes: s.DbSize, InUse: s.DbSizeInUse, Quota: s.DbSizeQuota}, nil
	}
	d.alarms = func(ctx context.Context) (alarms []string, err error) {
		for _, endpoint := range c.Endpoints { // one that answers knows those of all members
			var s *clientv3.StatusResponse
			if s, err = client.Status(ctx, endpoint); err == nil {
				return s.Errors, nil
			}
		}
		return nil, err
	}
	d.reach = c.reach
	return d, nil
}
