// Package external delegates signing of service account tokens to another program (--service-account-signing-endpoint).
// The program listens on a Unix socket; it signs tokens and returns the keys that verify them.
package external

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	externaljwtv1 "k8s.io/externaljwt/apis/v1"
	"k8s.io/utils/clock"
)

const (
	// keysTimeout bounds a request for the signer's keys, metadataTimeout one for its metadata.
	keysTimeout     = time.Minute
	metadataTimeout = 10 * time.Second
	// minLife is the smallest maximum token lifetime, in seconds, that a signer may have.
	minLife = 10 * 60
	// maxKeyID bounds key IDs, in bytes.
	maxKeyID = 1024
)

// Signer is the program at the other end of a socket.
type Signer struct {
	conn    *grpc.ClientConn
	client  externaljwtv1.ExternalJWTSignerClient
	keys    *keys
	metrics *Metrics
	// MaxLife is the maximum token lifetime that the signer allows.
	MaxLife time.Duration
}

// Dial connects to the socket at a path (a leading "@" means an abstract socket), and reads the signer's keys and
// limits. It waits until the signer listens.
func Dial(ctx context.Context, path string, clk clock.WithTicker, m *Metrics, log *slog.Logger) (_ *Signer, err error) {
	conn, err := grpc.NewClient("passthrough:///"+path,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}),
		grpc.WithUnaryInterceptor(m.intercept(clk)))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = conn.Close() // never used
		}
	}()
	s := &Signer{conn: conn, client: externaljwtv1.NewExternalJWTSignerClient(conn), metrics: m}
	s.keys = &keys{client: s.client, clock: clk, metrics: m, log: log}
	if err := s.keys.fetch(ctx); err != nil {
		return nil, fmt.Errorf("fetch the external signer's keys: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	metadata, err := s.client.Metadata(ctx, &externaljwtv1.MetadataRequest{})
	if err != nil {
		return nil, fmt.Errorf("ask the external signer for its metadata: %w", err)
	}
	if metadata.MaxTokenExpirationSeconds < minLife {
		return nil, fmt.Errorf("max token life supported by external-jwt-signer (%ds) is less than acceptable (min %ds)", metadata.MaxTokenExpirationSeconds, minLife)
	}
	s.MaxLife = time.Duration(metadata.MaxTokenExpirationSeconds) * time.Second
	return s, nil
}

// Close closes the connection.
func (s *Signer) Close() error { return s.conn.Close() }

// Run refreshes the keys at the interval that the signer chooses, until ctx ends.
func (s *Signer) Run(ctx context.Context) { s.keys.run(ctx) }

// Sign asks the signer to sign a payload and returns the token.
func (s *Signer) Sign(ctx context.Context, payload []byte) (string, error) {
	encoded := base64.RawURLEncoding.EncodeToString(payload)
	token, err := s.sign(ctx, encoded)
	s.metrics.signed(err)
	return token, err
}

func (s *Signer) sign(ctx context.Context, payload string) (string, error) {
	r, err := s.client.Sign(ctx, &externaljwtv1.SignJWTRequest{Claims: payload})
	if err != nil {
		return "", fmt.Errorf("while signing jwt: %w", err)
	}
	if err := s.checkHeader(ctx, r.Header); err != nil {
		return "", fmt.Errorf("while validating header: %w", err)
	}
	if r.Signature == "" {
		return "", errors.New("empty signature returned")
	}
	return r.Header + "." + payload + "." + r.Signature, nil
}

// checkHeader requires a header that this server would accept in a token, with a published key.
func (s *Signer) checkHeader(ctx context.Context, encoded string) error {
	data, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return fmt.Errorf("while unwrapping header: %w", err)
	}
	var header struct {
		Algorithm string `json:"alg"`
		KeyID     string `json:"kid"`
		Type      string `json:"typ"`
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&header); err != nil {
		return fmt.Errorf("while parsing header JSON: %w", err)
	}
	switch {
	case header.Type != "JWT":
		return errors.New("bad type")
	case header.KeyID == "":
		return errors.New("key id missing")
	case len(header.KeyID) > maxKeyID:
		return errors.New("key id longer than 1 kb")
	case !slices.Contains([]string{"RS256", "ES256", "ES384", "ES512"}, header.Algorithm):
		return fmt.Errorf("bad signing algorithm %q", header.Algorithm)
	}
	// The signer itself names the key, so an unknown one is always asked for.
	if known := s.keys.ask(ctx, header.KeyID); known.Knows(header.KeyID) && !known.Publishes(header.KeyID) {
		return fmt.Errorf("key used for signing JWT (kid: %s) is excluded from OIDC discovery docs", header.KeyID)
	}
	return nil
}
