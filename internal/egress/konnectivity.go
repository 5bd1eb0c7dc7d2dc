package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	konn "sigs.k8s.io/apiserver-network-proxy/konnectivity-client/proto/client"
)

// closeTimeout is how long a konnectivity server has to end a connection that
// was closed here, after it was sent what had been written.
const closeTimeout = 10 * time.Second

// konnectivity speaks with a konnectivity server over its Unix socket. A
// connection is a gRPC stream, on a socket of its own, of packets.
//
// Upstream's client is not used: it gives a connection up whose reader pauses
// for ten seconds, since it has no flow control, and its connections know no
// deadlines. Here the stream's own flow control reaches from end to end.
func konnectivity(socket string) func(context.Context) (ask, error) {
	return func(ctx context.Context) (ask, error) {
		dial := unix(socket)
		cc, err := grpc.NewClient("passthrough:///konnectivity", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }))
		if err != nil {
			return nil, err
		}
		// The stream lasts longer than ctx, which ends it only while it is made.
		of, cancel := context.WithCancel(context.Background())
		t := &tunnel{close: func() { cancel(); _ = cc.Close() }}
		if err := t.within(ctx, func() (err error) {
			t.stream, err = konn.NewProxyServiceClient(cc).Proxy(of)
			return err
		}); err != nil {
			return nil, fmt.Errorf("connect to konnectivity server at %s: %w", socket, err)
		}
		return t.ask, nil
	}
}

// tunnel is a stream to a konnectivity server, for one connection.
type tunnel struct {
	stream konn.ProxyService_ProxyClient
	id     int64  // of the connection, chosen by the server
	close  func() // breaks the stream off
}

// within does a part of making the tunnel. The tunnel is closed if that fails,
// or is not done when ctx ends.
func (t *tunnel) within(ctx context.Context, f func() error) error {
	release := context.AfterFunc(ctx, t.close)
	err := f()
	if !release() {
		err = context.Cause(ctx)
	}
	if err != nil {
		t.close()
	}
	return err
}

// ask is an ask.
func (t *tunnel) ask(ctx context.Context, addr string) (net.Conn, error) {
	if err := t.within(ctx, func() error { return t.request(addr) }); err != nil {
		return nil, fmt.Errorf("dialing %s via konnectivity server: %w", addr, err)
	}
	// A pipe knows deadlines and closing, which a stream of packets does not.
	near, far := net.Pipe()
	go t.receive(far)
	go t.send(far)
	return &patient{near, t.close}, nil
}

// request asks for a connection and waits for the answer.
func (t *tunnel) request(addr string) error {
	id := rand.Int64()
	err := t.stream.Send(&konn.Packet{Type: konn.PacketType_DIAL_REQ, Payload: &konn.Packet_DialRequest{
		DialRequest: &konn.DialRequest{Protocol: "tcp", Address: addr, Random: id}}})
	// What is wrong with a stream that nothing can be sent on, receiving tells.
	for err == nil || errors.Is(err, io.EOF) {
		var p *konn.Packet
		if p, err = t.stream.Recv(); err != nil {
			return err
		}
		switch answer := p.GetDialResponse(); {
		case p.Type == konn.PacketType_DIAL_RSP && answer.GetRandom() == id:
			if why := answer.GetError(); why != "" {
				return fmt.Errorf("%.256s", why)
			}
			t.id = answer.GetConnectID()
			return nil
		case p.Type == konn.PacketType_DIAL_CLS && p.GetCloseDial().GetRandom() == id:
			return errors.New("dial closed")
		}
	}
	return err
}

// receive hands on what comes from the other end, and cleans up at its end.
func (t *tunnel) receive(far net.Conn) {
	defer t.close()
	defer func() { _ = far.Close() }() // a pipe
	for {
		p, err := t.stream.Recv()
		if err != nil || p.Type == konn.PacketType_CLOSE_RSP {
			return
		}
		if p.Type == konn.PacketType_DATA {
			// Fails where nobody reads any more; the end of the stream is still waited for.
			_, _ = far.Write(p.GetData().GetData())
		}
	}
}

// send sends what is written here, and then that this was all.
func (t *tunnel) send(far net.Conn) {
	for buf := make([]byte, 32<<10); ; {
		n, err := far.Read(buf)
		if err != nil {
			break
		}
		if t.stream.Send(&konn.Packet{Type: konn.PacketType_DATA, Payload: &konn.Packet_Data{
			Data: &konn.Data{ConnectID: t.id, Data: buf[:n]}}}) != nil {
			break // receiving finds the stream at its end, too
		}
	}
	_ = t.stream.Send(&konn.Packet{Type: konn.PacketType_CLOSE_REQ, Payload: &konn.Packet_CloseRequest{
		CloseRequest: &konn.CloseRequest{ConnectID: t.id}}})
	_ = t.stream.CloseSend()
}

// patient is a connection that gives the proxy a while to see it closed.
type patient struct {
	net.Conn
	giveUp func()
}

// Close is part of net.Conn.
func (p *patient) Close() error {
	time.AfterFunc(closeTimeout, p.giveUp)
	return p.Conn.Close()
}
