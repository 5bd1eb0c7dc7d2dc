package etcd

import (
	"context"
	"errors"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// electing is an etcd that elects leaders while it is read.
type electing struct {
	clientv3.KV
	fails []error
}

func (e *electing) Get(context.Context, string, ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if len(e.fails) > 0 {
		err := e.fails[0]
		e.fails = e.fails[1:]
		return nil, err
	}
	return &clientv3.GetResponse{Header: &pb.ResponseHeader{Revision: 7}}, nil
}

// A read that an election cuts off is repeated: a member that starts while others elect a leader does not end.
func TestReadsWhileLeaderChanges(t *testing.T) {
	etcd := &electing{}
	d := &DB{Client: &clientv3.Client{KV: etcd}}
	etcd.fails = []error{rpctypes.ErrLeaderChanged, rpctypes.Error(rpctypes.ErrGRPCLeaderChanged)}
	if a, err := d.Range(t.Context(), kv.Range{Key: "a"}, func(kv.KeyValue) bool { return true }); err != nil || a.Rev != 7 {
		t.Errorf("%v, %v", a, err)
	}
	etcd.fails = []error{rpctypes.ErrLeaderChanged}
	if rev, err := d.linearized(t.Context()); err != nil || rev != 7 {
		t.Errorf("%d, %v", rev, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	etcd.fails = []error{rpctypes.ErrLeaderChanged}
	if _, err := d.linearized(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v after the reader has gone", err)
	}
}
