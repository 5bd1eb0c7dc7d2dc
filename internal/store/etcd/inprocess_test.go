package etcd

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// TestCloseUnderReaders closes a log that is read, and whose watches are being sent what was written with what was there
// before: etcd reads both from its files, which Close must not take away meanwhile.
func TestCloseUnderReaders(t *testing.T) {
	for range 5 {
		closeUnderReaders(t)
	}
}

func closeUnderReaders(t *testing.T) {
	db, err := OpenEmbedded(t.Context(), Embedded{Dir: t.TempDir(), AnyDisk: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 500 {
		if _, err := db.Client.Put(t.Context(), fmt.Sprint("a", i%10), "b"); err != nil {
			t.Fatal(err)
		}
	}
	const watches, readers = 20, 8
	began := make(chan bool, watches+readers)
	var running sync.WaitGroup
	for range watches {
		running.Go(func() {
			_ = db.Watch(t.Context(), kv.Watch{Key: "a", Prefix: true, From: 1, Prev: true}, func([]kv.Event, int64) error {
				select {
				case began <- true:
				default:
				}
				return nil
			})
		})
	}
	for range readers {
		running.Go(func() {
			for t.Context().Err() == nil {
				if _, err := db.Range(t.Context(), kv.Range{Key: "a", End: "b", Rev: 100}, func(kv.KeyValue) bool { return true }); err != nil {
					return
				}
			}
		})
	}
	<-began
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	running.Wait()
	if _, err := db.Client.Get(t.Context(), "a", clientv3.WithSerializable()); !errors.Is(err, rpctypes.ErrStopped) {
		t.Errorf("a read after the end: %v", err)
	}
}

// TestCloseOfBroken closes the sockets of an etcd that is broken, while it serves a call that does not end.
func TestCloseOfBroken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	begun, end := make(chan bool), make(chan bool)
	p := &ports{clients: []net.Listener{l}, rpc: grpc.NewServer(grpc.WaitForHandlers(true), grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
		begun <- true
		<-end
		return nil
	}))}
	p.serving.Go(func() { _ = p.rpc.Serve(l) })
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, "/a/b"); err != nil {
		t.Fatal(err)
	}
	<-begun
	broken := make(chan struct{})
	close(broken)
	if err := p.close(broken); err != nil {
		t.Error(err)
	}
	close(end)
	if err := p.close(nil); err != nil { // now it waits, and nothing is left
		t.Error(err)
	}
}
