package etcd

import (
	"context"
	"errors"
	"math"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// remote is the watch of an etcd elsewhere. It does without the watcher of etcd's client, which has three more goroutines for each stream,
// through which all events go, and keeps for slow readers as much as comes.
type remote struct {
	stream pb.Watch_WatchClient
}

// watchRemote begins a watch. It waits for a connection.
func watchRemote(ctx context.Context, c *clientv3.Client, w kv.Watch) (source, error) {
	stream, err := pb.NewWatchClient(c.ActiveConnection()).Watch(clientv3.WithRequireLeader(ctx), grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(math.MaxInt32))
	if err != nil {
		return nil, told(err)
	}
	key, end := ends(w)
	create := &pb.WatchCreateRequest{Key: key, RangeEnd: end, StartRevision: w.From, PrevKv: w.Prev}
	// If that fails, to receive says why.
	_ = stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}})
	return remote{stream}, nil
}

// receive is part of source.
func (r remote) receive(ctx context.Context, to *inbox) error {
	for {
		a, err := r.stream.Recv()
		switch {
		case err != nil:
			return told(err)
		case a.CompactRevision != 0:
			return kv.ErrCompacted
		case a.Canceled:
			return rpctypes.Error(status.Error(codes.FailedPrecondition, a.CancelReason))
		case a.Created:
			continue
		}
		if err := to.put(ctx, a.Events, a.Header.GetRevision()); err != nil {
			return err
		}
	}
}

// ask is part of source. If it fails, the stream has ended.
func (r remote) ask() {
	_ = r.stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
}

// told makes an error of a stream one of etcd. As etcd's client has it, a watch has only lost its server unless that refuses it or has no leader.
func told(err error) error {
	code, is := status.Code(err), rpctypes.Error(err)
	if (code == codes.Unavailable || code == codes.Internal) && !errors.Is(is, rpctypes.ErrNoLeader) {
		return goneError{is}
	}
	return is
}
