package etcd

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"testing"

	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// TestTooLarge writes values around both limits, that of a value and that of a message, in this process and through a socket. Each
// is told as a value that is too large, for which the engine leaves out the managers of fields.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	e := Embedded{Dir: t.TempDir(), UnsafeNoFsync: true, Name: SoleName, Log: slog.New(slog.DiscardHandler)}
	broken := newBreakage()
	srv, err := e.newServer(broken)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	<-srv.ReadyNotify()
	t.Cleanup(srv.HardStop)
	embedded, err := e.db(srv, broken, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	rpc := v3rpc.Server(srv, nil, nil)
	go func() { _ = rpc.Serve(listener) }()
	t.Cleanup(rpc.Stop)
	cluster, err := Dial(Cluster{Endpoints: []string{listener.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Close() })
	for name, db := range map[string]*DB{"embedded": embedded, "cluster": cluster} {
		for _, size := range []int{1 << 20, 3 << 19, 2<<20 - 200, 2 << 20, 2<<20 + 200_000, 5 << 20, 9 << 20} {
			t.Run(fmt.Sprintf("%s/%d", name, size), func(t *testing.T) {
				err := write(t.Context(), db, "/a", size)
				if large := size > 1<<20; errors.Is(err, kv.ErrTooLarge) != large || !large && err != nil {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}
