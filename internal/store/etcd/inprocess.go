package etcd

import (
	"context"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/proxy/grpcproxy/adapter"
)

// newClient returns a client of an etcd in this process, and its calls. Etcd must not be stopped before these have ended:
// they read its database, a watch for each event what was there before, and end the process if it has been closed. Closing
// the client makes them end, but does not wait for it.
func newClient(srv *etcdserver.EtcdServer) (*clientv3.Client, *calls) {
	client, c := v3client.New(srv), &calls{}
	client.KV = clientv3.NewKVFromKVClient(adapter.KvServerToKvClient(reading{v3rpc.NewQuotaKVServer(srv), c}), client)
	client.Watcher = plainWatcher{clientv3.NewWatchFromWatchClient(adapter.WatchServerToWatchClient(watching{v3rpc.NewWatchServer(srv), c}), client)}
	return client, c
}

// calls counts the calls of a client that read the database.
type calls struct {
	mu      sync.Mutex
	running sync.WaitGroup
	closed  bool
}

// begin counts a call until running.Done. It refuses one after close.
func (c *calls) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return rpctypes.ErrGRPCStopped
	}
	c.running.Add(1)
	return nil
}

// close lets no call begin any more. The channel is closed when none is left.
func (c *calls) close() <-chan struct{} {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		c.running.Wait()
		close(ended)
	}()
	return ended
}

type reading struct {
	pb.KVServer
	calls *calls
}

// Range is part of pb.KVServer.
func (r reading) Range(ctx context.Context, in *pb.RangeRequest) (*pb.RangeResponse, error) {
	if err := r.calls.begin(); err != nil {
		return nil, err
	}
	defer r.calls.running.Done()
	return r.KVServer.Range(ctx, in)
}

// Txn is part of pb.KVServer. One that only reads is carried out by who asks.
func (r reading) Txn(ctx context.Context, in *pb.TxnRequest) (*pb.TxnResponse, error) {
	if err := r.calls.begin(); err != nil {
		return nil, err
	}
	defer r.calls.running.Done()
	return r.KVServer.Txn(ctx, in)
}

type watching struct {
	pb.WatchServer
	calls *calls
}

// Watch is part of pb.WatchServer.
func (w watching) Watch(stream pb.Watch_WatchServer) error {
	if err := w.calls.begin(); err != nil {
		return err
	}
	defer w.calls.running.Done()
	return w.WatchServer.Watch(stream)
}

// plainWatcher hides what a context is made of: the client prints contexts, and printing reads all values of one without
// their locks.
type plainWatcher struct{ clientv3.Watcher }

// Watch is part of clientv3.Watcher.
func (w plainWatcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	return w.Watcher.Watch(plainContext{ctx}, key, opts...)
}

type plainContext struct{ context.Context }

// String is part of fmt.Stringer.
func (plainContext) String() string { return "(a context)" }
