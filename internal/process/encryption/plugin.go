package encryption

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	kmsapi "k8s.io/kms/apis/v2"
)

// plugin is the connection to a KMS plugin, over a Unix socket. It is made when first needed, and again when it breaks.
type plugin struct {
	connection *grpc.ClientConn
	client     kmsapi.KeyManagementServiceClient
	timeout    time.Duration // of a call
}

// dial makes a plugin of an endpoint.
func dial(name, endpoint string, timeout time.Duration, m *metrics) (*plugin, error) {
	conn, err := connect(name, endpoint, m)
	if err != nil {
		return nil, err
	}
	return &plugin{conn, kmsapi.NewKeyManagementServiceClient(conn), timeout}, nil
}

// connect makes the connection to an endpoint ("unix:///path", or "unix:///@name" for an abstract socket).
func connect(name, endpoint string, m *metrics) (*grpc.ClientConn, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, fmt.Errorf("invalid endpoint %q for remote KMS provider, error: %w", endpoint, err)
	}
	if u.Scheme != "unix" {
		return nil, fmt.Errorf("unsupported scheme %q for remote KMS provider", u.Scheme)
	}
	path := u.Path
	if strings.HasPrefix(path, "/@") {
		path = path[1:]
	}
	measured := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		began := m.clock.Now()
		err := call(ctx, method, req, reply, cc, opts...)
		m.called(name, method, m.clock.Since(began), err)
		return err
	}
	conn, err := grpc.NewClient("passthrough:///"+path,
		grpc.WithAuthority("localhost"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}),
		grpc.WithChainUnaryInterceptor(measured),
	)
	if err != nil {
		return nil, fmt.Errorf("failed to create connection to %s, error: %w", endpoint, err)
	}
	return conn, nil
}

func (p *plugin) close() { _ = p.connection.Close() } // fails only if it is closed already

func (p *plugin) status(ctx context.Context) (*kmsapi.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	return p.client.Status(ctx, &kmsapi.StatusRequest{})
}

func (p *plugin) encrypt(ctx context.Context, uid string, plain []byte) (*kmsapi.EncryptResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	return p.client.Encrypt(ctx, &kmsapi.EncryptRequest{Plaintext: plain, Uid: uid})
}

// decrypt decrypts the source of an envelope.
func (p *plugin) decrypt(ctx context.Context, uid string, e *envelope) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	answer, err := p.client.Decrypt(ctx, &kmsapi.DecryptRequest{Ciphertext: e.source, Uid: uid, KeyId: e.keyID, Annotations: e.annotations})
	if err != nil {
		return nil, err
	}
	return answer.Plaintext, nil
}
