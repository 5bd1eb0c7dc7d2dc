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

// newClient returns a client of an etcd in this process, and the watches that etcd serves to it. Etcd must not be
// stopped before these have ended: for each event they read what was there before from the database, and end the process
// if it has been closed meanwhile. Closing the client makes them end, but does not wait for it.
func newClient(srv *etcdserver.EtcdServer) (*clientv3.Client, *watches) {
	client := v3client.New(srv)
	w := &watches{WatchServer: v3rpc.NewWatchServer(srv)}
	client.Watcher = plainWatcher{clientv3.NewWatchFromWatchClient(adapter.WatchServerToWatchClient(w), client)}
	return client, w
}

// watches is a watch server that can be waited for.
type watches struct {
	pb.WatchServer
	running sync.WaitGroup
	mu      sync.Mutex
	closed  bool
}

// Watch is part of pb.WatchServer.
func (w *watches) Watch(stream pb.Watch_WatchServer) error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return rpctypes.ErrGRPCStopped
	}
	w.running.Add(1)
	w.mu.Unlock()
	defer w.running.Done()
	return w.WatchServer.Watch(stream)
}

// close lets no watch begin any more. The channel is closed when none is served.
func (w *watches) close() <-chan struct{} {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		w.running.Wait()
		close(ended)
	}()
	return ended
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
