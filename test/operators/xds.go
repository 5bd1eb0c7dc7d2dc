//go:build linux

package main

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/encoding/protowire"
)

// Envoy's and Istio's APIs as far as a step needs them: the fields of four messages.

// plain sends messages that are encoded already.
type plain struct{}

func (plain) Name() string { return "proto" }

func (plain) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (plain) Unmarshal(b []byte, v any) error {
	*v.(*[]byte) = b
	return nil
}

// dial connects to a server of gRPC.
func dial(address string, how credentials.TransportCredentials) (*grpc.ClientConn, error) {
	return grpc.NewClient(address, grpc.WithTransportCredentials(how), grpc.WithDefaultCallOptions(grpc.ForceCodec(plain{}), grpc.MaxCallRecvMsgSize(64<<20)))
}

// appendField appends a field of bytes, text or a message.
func appendField(b []byte, number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), value)
}

// fields returns the values of a field.
func fields(message []byte, number protowire.Number) (values [][]byte, err error) {
	for len(message) > 0 {
		n, kind, length := protowire.ConsumeTag(message)
		if length < 0 {
			return nil, protowire.ParseError(length)
		}
		message = message[length:]
		if n == number && kind == protowire.BytesType {
			value, length := protowire.ConsumeBytes(message)
			if length < 0 {
				return nil, protowire.ParseError(length)
			}
			values = append(values, value)
			message = message[length:]
			continue
		}
		if length = protowire.ConsumeFieldValue(n, kind, message); length < 0 {
			return nil, protowire.ParseError(length)
		}
		message = message[length:]
	}
	return values, nil
}

// The fields of a DiscoveryRequest and a DiscoveryResponse, and of a Node.
const (
	requestVersion, requestNode, requestNames, requestType, requestNonce = 1, 2, 3, 4, 5
	responseVersion, responseResources, responseType, responseNonce      = 1, 2, 4, 5
	nodeID                                                               = 1
)

// discovery is a stream of resources of one type, as a proxy has it.
type discovery struct {
	stream grpc.ClientStream
	kind   string
	names  []string
}

// discover subscribes to resources as a sidecar.
func discover(ctx context.Context, conn *grpc.ClientConn, node, kind string, names ...string) (*discovery, error) {
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources")
	if err != nil {
		return nil, err
	}
	d := &discovery{stream, "type.googleapis.com/" + kind, names}
	return d, d.ask(appendField(nil, requestNode, appendField(nil, nodeID, []byte(node))))
}

func (d *discovery) ask(request []byte) error {
	request = appendField(request, requestType, []byte(d.kind))
	for _, name := range d.names {
		request = appendField(request, requestNames, []byte(name))
	}
	return d.stream.SendMsg(&request)
}

// next waits for the next push, accepts it, and returns its resources.
func (d *discovery) next() ([][]byte, error) {
	var message []byte
	if err := d.stream.RecvMsg(&message); err != nil {
		return nil, err
	}
	accepted := []byte{}
	for from, to := range map[protowire.Number]protowire.Number{responseVersion: requestVersion, responseNonce: requestNonce} {
		value, err := fields(message, from)
		if err != nil {
			return nil, err
		}
		if len(value) > 0 {
			accepted = appendField(accepted, to, value[0])
		}
	}
	kinds, err := fields(message, responseType)
	if err != nil {
		return nil, err
	}
	if len(kinds) != 1 || string(kinds[0]) != d.kind {
		return nil, fmt.Errorf("the push is of %q", kinds)
	}
	if err := d.ask(accepted); err != nil {
		return nil, err
	}
	return fields(message, responseResources)
}
