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

// closeTimeout is how long a konnectivity server may take to end a connection that was closed here, after the remaining
// data was sent.
const closeTimeout = 10 * time.Second

// konnectivity connects through a konnectivity server on a Unix socket. Each connection is a gRPC stream of packets, on
// its own socket.
//
// Upstream's client is not used: it has no flow control, so it drops a connection whose reader pauses for ten seconds,
// and its connections do not support deadlines. Here the stream's flow control works from end to end.
func konnectivity(socket string) func(context.Context) (ask, error) {
	return func(ctx context.Context) (ask, error) {
		dial := unix(socket)
		cc, err := grpc.NewClient("passthrough:///konnectivity", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }))
		if err != nil {
			return nil, err
		}
		// The stream outlives ctx, which cancels it only while it is being set up.
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
	id     int64  // of the connection, assigned by the server
	close  func() // cancels the stream
}

// within runs a part of the setup. It closes the tunnel if f fails or does not finish before ctx ends.
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

// ask implements the func type ask.
func (t *tunnel) ask(ctx context.Context, addr string) (net.Conn, error) {
	if err := t.within(ctx, func() error { return t.request(addr) }); err != nil {
		return nil, fmt.Errorf("dialing %s via konnectivity server: %w", addr, err)
	}
	// A pipe supports deadlines and Close, which a stream of packets does not.
	near, far := net.Pipe()
	go t.receive(far)
	go t.send(far)
	return &patient{near, t.close}, nil
}

// request sends a dial request and waits for the response.
func (t *tunnel) request(addr string) error {
	id := rand.Int64()
	err := t.stream.Send(&konn.Packet{Type: konn.PacketType_DIAL_REQ, Payload: &konn.Packet_DialRequest{
		DialRequest: &konn.DialRequest{Protocol: "tcp", Address: addr, Random: id}}})
	// Send returns io.EOF on a broken stream; Recv returns its error.
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

// receive forwards data from the destination, and cleans up at the end.
func (t *tunnel) receive(far net.Conn) {
	defer t.close()
	defer func() { _ = far.Close() }() // closing a pipe cannot fail
	for {
		p, err := t.stream.Recv()
		if err != nil || p.Type == konn.PacketType_CLOSE_RSP {
			return
		}
		if p.Type == konn.PacketType_DATA {
			// This fails if nobody reads any more; the end of the stream is still awaited.
			_, _ = far.Write(p.GetData().GetData())
		}
	}
}

// send forwards written data, and then the close.
func (t *tunnel) send(far net.Conn) {
	for buf := make([]byte, 32<<10); ; {
		n, err := far.Read(buf)
		if err != nil {
			break
		}
		if t.stream.Send(&konn.Packet{Type: konn.PacketType_DATA, Payload: &konn.Packet_Data{
			Data: &konn.Data{ConnectID: t.id, Data: buf[:n]}}}) != nil {
			break // receive sees the end of the stream too
		}
	}
	_ = t.stream.Send(&konn.Packet{Type: konn.PacketType_CLOSE_REQ, Payload: &konn.Packet_CloseRequest{
		CloseRequest: &konn.CloseRequest{ConnectID: t.id}}})
	_ = t.stream.CloseSend()
}

// patient is a connection whose Close gives the proxy time to close its side.
type patient struct {
	net.Conn
	giveUp func()
}

// Close is part of net.Conn.
func (p *patient) Close() error {
	time.AfterFunc(closeTimeout, p.giveUp)
	return p.Conn.Close()
}
