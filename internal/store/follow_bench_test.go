package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	grpcencoding "google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/kanzen-io/kanzen/internal/store/etcd"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// BenchmarkFollow takes in the events of another server's writes, as etcd's client hands them over: what one server can
// follow. "client" is the part of etcd's client and gRPC alone, "unread" a kind whose view nobody has loaded, "read" one whose
// view is loaded, "watched" one that is watched by the value of a field, which is then read of every object.
func BenchmarkFollow(b *testing.B) {
	for _, size := range []int{400, 1000, 6000} {
		for _, use := range []string{"client", "unread", "read", "watched"} {
			for _, batch := range []int{1, 100} {
				b.Run(fmt.Sprintf("bytes=%d/%s/batch=%d", size, use, batch), func(b *testing.B) { benchmarkFollow(b, size, use, batch) })
			}
		}
	}
}

func benchmarkFollow(b *testing.B, size int, use string, batch int) {
	from := newPrepared(b, size, batch)
	db, err := etcd.Dial(etcd.Cluster{Endpoints: []string{from.serve(b)}})
	if err != nil {
		b.Fatal(err)
	}
	var arrived func(rev int64) error
	taken := func() int64 { return 0 } // events that a view has decoded
	if use == "client" {
		arrived = watchOnly(b, db)
	} else {
		s := run(b, db)
		arrived = func(rev int64) error { return s.WaitFor(b.Context(), rev) }
		// The log begins by resetting views: what is loaded before that takes nothing in.
		if err := arrived(preparedRev); err != nil {
			b.Fatal(err)
		}
		v := s.View(preparedKind)
		if use != "unread" {
			if _, err := v.Snapshot(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		if use == "watched" {
			w, err := v.Watch(b.Context(), WatchOptions{After: preparedRev, Triggers: []string{"none"}})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(w.Close)
		}
		taken = v.counts.taken.Load
	}
	rev, want := int64(preparedRev), int64(0)
	b.ReportAllocs()
	b.ResetTimer()
	for sent := 0; sent < b.N; {
		// So many that the stream does not stand still between them.
		var n int
		for ; n < 20_000 && sent < b.N; n += batch {
			sent += batch
		}
		from.more <- n / batch
		rev += int64(n)
		if err := arrived(rev); err != nil {
			b.Fatal(err)
		}
	}
	if use == "read" || use == "watched" {
		want = rev - preparedRev
	}
	if got := taken(); got != want {
		b.Fatalf("the view took in %d events, want %d", got, want)
	}
	b.ReportMetric(float64(rev-preparedRev)/b.Elapsed().Seconds(), "events/s")
}

// watchOnly follows the stream without a store.
func watchOnly(b *testing.B, db *etcd.DB) (arrived func(rev int64) error) {
	ctx := b.Context()
	revs, ended := make(chan int64, 1), make(chan error, 1)
	go func() {
		ended <- db.Watch(ctx, kv.Watch{Key: "/registry/", Prefix: true, From: preparedRev + 1}, func(_ []kv.Event, rev int64) error {
			select {
			case <-revs: // only the newest is of interest
			default:
			}
			revs <- rev
			return nil
		})
	}()
	b.Cleanup(func() {
		_ = db.Close()
		<-ended
	})
	return func(want int64) error {
		for {
			select {
			case rev := <-revs:
				if rev >= want {
					return nil
				}
			case err := <-ended:
				ended <- err
				return fmt.Errorf("the watch ended: %w", err)
			}
		}
	}
}

// preparedRev is the revision before the first event. All later ones have the same length in a message, so a message can
// be sent again with other revisions in it.
const preparedRev = 1 << 40

// preparedKind reads the field of a value without copying the value, as the server's kinds do.
var preparedKind = Kind{Prefix: "things/", Trigger: "node", Fields: func(v []byte) (fields.Set, error) {
	node, _, _ := bytes.Cut(v, []byte("|"))
	return fields.Set{"node": string(node)}, nil
}}

// preparedKeys is how many objects change in turn.
const preparedKeys = 3000

// prepared is an etcd that has no objects and sends events made beforehand, so that hardly anything is spent on the writer.
type prepared struct {
	etcdserverpb.UnimplementedWatchServer
	etcdserverpb.UnimplementedKVServer
	messages [][]byte
	at       [][]int // where the revisions are in each message
	more     chan int
}

func newPrepared(b *testing.B, size, batch int) *prepared {
	p := &prepared{more: make(chan int)}
	value := append([]byte("n0|"), bytes.Repeat([]byte("x"), size-3)...)
	for n := 0; n < preparedKeys; n += batch {
		r := &etcdserverpb.WatchResponse{Header: &etcdserverpb.ResponseHeader{}}
		for i := n; i < n+batch; i++ {
			r.Events = append(r.Events, &mvccpb.Event{Kv: &mvccpb.KeyValue{
				Key: fmt.Appendf(nil, "/registry/things/ns%d/name-%d", i%30, i), Value: value,
				CreateRevision: 1, ModRevision: int64(preparedRev + i), Version: 2,
			}})
		}
		m, err := proto.Marshal(r)
		if err != nil {
			b.Fatal(err)
		}
		var at []int
		for i := n; i < n+batch; i++ {
			at = append(at, bytes.Index(m, binary.AppendUvarint(nil, uint64(preparedRev+i))))
		}
		p.messages, p.at = append(p.messages, m), append(p.at, at)
	}
	return p
}

// serve starts the server and returns its address.
func (p *prepared) serve(b *testing.B) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{grpcencoding.GetCodecV2(grpcproto.Name)}))
	etcdserverpb.RegisterWatchServer(server, p)
	etcdserverpb.RegisterKVServer(server, p)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	b.Cleanup(func() {
		server.Stop()
		<-served
	})
	return l.Addr().String()
}

// Range answers that there is nothing.
func (p *prepared) Range(context.Context, *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	return &etcdserverpb.RangeResponse{Header: &etcdserverpb.ResponseHeader{Revision: preparedRev}}, nil
}

// Watch serves one watch of everything.
func (p *prepared) Watch(stream etcdserverpb.Watch_WatchServer) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	header := &etcdserverpb.ResponseHeader{Revision: preparedRev}
	if err := stream.Send(&etcdserverpb.WatchResponse{Header: header, Created: true}); err != nil {
		return err
	}
	rev, next := uint64(preparedRev), 0
	for {
		select {
		case n := <-p.more:
			for range n {
				m := bytes.Clone(p.messages[next]) // gRPC writes it later
				for _, at := range p.at[next] {
					rev++
					binary.PutUvarint(m[at:], rev)
				}
				if err := stream.SendMsg(m); err != nil {
					return err
				}
				next = (next + 1) % len(p.messages)
			}
		case <-stream.Context().Done():
			return nil
		}
	}
}

// rawCodec sends messages that are encoded already as they are.
type rawCodec struct{ grpcencoding.CodecV2 }

func (c rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.([]byte); ok {
		return mem.BufferSlice{mem.SliceBuffer(m)}, nil
	}
	return c.CodecV2.Marshal(v)
}
