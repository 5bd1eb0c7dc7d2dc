package egresstest

import (
	"fmt"
	"net"
	"testing"

	"google.golang.org/grpc"
	konn "sigs.k8s.io/apiserver-network-proxy/konnectivity-client/proto/client"
)

// Konnectivity starts a konnectivity server with its agent on a Unix socket.
func Konnectivity(t testing.TB, to string) *Proxy {
	t.Helper()
	p := &Proxy{to: to}
	p.Connection = ServeGRPC(t, konnectivity{p: p})
	return p
}

// ServeGRPC serves an implementation of the konnectivity protocol, and returns the connection to it.
func ServeGRPC(t testing.TB, server konn.ProxyServiceServer) string {
	t.Helper()
	l, socket := Listen(t)
	s := grpc.NewServer()
	konn.RegisterProxyServiceServer(s, server)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return fmt.Sprintf(`{proxyProtocol: GRPC, transport: {uds: {udsName: %s}}}`, socket)
}

type konnectivity struct {
	konn.UnimplementedProxyServiceServer
	p *Proxy
}

// connection is the ID of the only connection of a stream.
const connection = 7

// Proxy is part of konn.ProxyServiceServer.
func (k konnectivity) Proxy(stream konn.ProxyService_ProxyServer) error {
	var conn net.Conn
	for {
		p, err := stream.Recv()
		if err != nil {
			if conn != nil {
				_ = conn.Close()
			}
			return nil
		}
		switch p.Type {
		case konn.PacketType_DIAL_REQ:
			req, answer := p.GetDialRequest(), &konn.DialResponse{ConnectID: connection}
			answer.Random = req.Random
			if conn, err = k.p.dial(req.Address); err != nil {
				answer.Error = err.Error()
			}
			if stream.Send(&konn.Packet{Type: konn.PacketType_DIAL_RSP, Payload: &konn.Packet_DialResponse{DialResponse: answer}}) != nil || err != nil {
				return nil
			}
			go back(stream, conn)
		case konn.PacketType_DATA:
			_, _ = conn.Write(p.GetData().Data)
		case konn.PacketType_CLOSE_REQ:
			_ = conn.Close()
		}
	}
}

// back sends the data that the destination sends.
func back(stream konn.ProxyService_ProxyServer, conn net.Conn) {
	for buf := make([]byte, 4096); ; {
		n, err := conn.Read(buf)
		if err != nil {
			break
		}
		if stream.Send(&konn.Packet{Type: konn.PacketType_DATA, Payload: &konn.Packet_Data{
			Data: &konn.Data{ConnectID: connection, Data: buf[:n]}}}) != nil {
			break
		}
	}
	_ = stream.Send(&konn.Packet{Type: konn.PacketType_CLOSE_RSP, Payload: &konn.Packet_CloseResponse{
		CloseResponse: &konn.CloseResponse{ConnectID: connection}}})
}
