package etcd

import (
	"context"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/proxy/grpcproxy/adapter"
	"go.etcd.io/etcd/server/v3/storage/mvcc"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// newClient returns a client of an etcd in this process, and its calls. Etcd must not be stopped before these have ended:
// they read its database, a watch for each event what was there before, and end the process if it has been closed. Closing
// the client makes them end, but does not wait for it.
func newClient(srv *etcdserver.EtcdServer) (*clientv3.Client, *calls) {
	client, c := v3client.New(srv), &calls{}
	c.open, c.shut = context.WithCancel(context.Background())
	client.KV = clientv3.NewKVFromKVClient(adapter.KvServerToKvClient(reading{v3rpc.NewQuotaKVServer(srv), c}), client)
	return client, c
}

// calls counts the calls of a client that read the database.
type calls struct {
	open context.Context // ends when none may begin any more
	shut context.CancelFunc

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
	c.shut()
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

// local is a watch of an etcd in this process. All that may wait for etcd's locks is done by receive.
type local struct {
	srv   *etcdserver.EtcdServer
	calls *calls
	watch kv.Watch
	asked chan struct{} // has a token if the progress is asked for
}

// receive is part of source.
func (l *local) receive(ctx context.Context, to *inbox) error {
	if err := l.calls.begin(); err != nil {
		return err
	}
	defer l.calls.running.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.calls.open, func() { cancel(rpctypes.ErrStopped) })()
	stream := l.srv.Watchable().NewWatchStream()
	defer drop(stream)
	key, end := ends(l.watch)
	if string(end) == kv.NoEnd {
		end = []byte{} // as etcd calls it inside
	}
	// Etcd would end a span of ctx together with the watch.
	if _, err := stream.Watch(context.Background(), clientv3.AutoWatchID, key, end, l.watch.From); err != nil {
		return err
	}
	for {
		select {
		case a := <-stream.Chan():
			mvcc.ReportEventReceived(len(a.Events))
			if a.CompactRevision != 0 {
				return kv.ErrCompacted
			}
			if err := to.put(ctx, l.withPrev(a.Events), a.Revision); err != nil {
				return err
			}
		case <-l.asked:
			stream.RequestProgressAll()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ask is part of source.
func (l *local) ask() { signal(l.asked) }

// withPrev returns events with what was there before, if that is asked for. Events are shared with other watches.
func (l *local) withPrev(events []*mvccpb.Event) []*mvccpb.Event {
	if !l.watch.Prev {
		return events
	}
	out := make([]*mvccpb.Event, 0, len(events))
	for _, e := range events {
		own := &mvccpb.Event{Type: e.Type, Kv: e.Kv}
		if !v3rpc.IsCreateEvent(e) {
			was, err := l.srv.Watchable().Range(context.Background(), e.Kv.Key, nil, mvcc.RangeOptions{Rev: e.Kv.ModRevision - 1})
			if err == nil && len(was.KVs) > 0 { // otherwise it is compacted
				own.PrevKv = was.KVs[0]
			}
		}
		out = append(out, own)
	}
	return out
}

// drop ends a watch. What it had yet to be told counts as told in etcd's metrics.
func drop(stream mvcc.WatchStream) {
	stream.Close()
	for a := range stream.Chan() {
		mvcc.ReportEventReceived(len(a.Events))
	}
}
