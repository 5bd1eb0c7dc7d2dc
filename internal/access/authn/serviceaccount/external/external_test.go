package external

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"
	externaljwtv1 "k8s.io/externaljwt/apis/v1"
	"k8s.io/utils/clock"
)

// signer is the program that holds the keys.
type signer struct {
	externaljwtv1.UnimplementedExternalJWTSignerServer
	key     *ecdsa.PrivateKey
	header  string
	keys    []*externaljwtv1.Key
	at      time.Time
	maxLife int64
	fetches int
}

func (s *signer) Sign(_ context.Context, r *externaljwtv1.SignJWTRequest) (*externaljwtv1.SignJWTResponse, error) {
	header := base64.RawURLEncoding.EncodeToString([]byte(s.header))
	sum := sha256.Sum256([]byte(header + "." + r.Claims))
	a, b, err := ecdsa.Sign(rand.Reader, s.key, sum[:])
	if err != nil {
		return nil, err
	}
	signature := append(a.FillBytes(make([]byte, 32)), b.FillBytes(make([]byte, 32))...)
	return &externaljwtv1.SignJWTResponse{Header: header, Signature: base64.RawURLEncoding.EncodeToString(signature)}, nil
}

func (s *signer) FetchKeys(context.Context, *externaljwtv1.FetchKeysRequest) (*externaljwtv1.FetchKeysResponse, error) {
	s.fetches++
	return &externaljwtv1.FetchKeysResponse{Keys: s.keys, DataTimestamp: timestamppb.New(s.at), RefreshHintSeconds: 60}, nil
}

func (s *signer) Metadata(context.Context, *externaljwtv1.MetadataRequest) (*externaljwtv1.MetadataResponse, error) {
	return &externaljwtv1.MetadataResponse{MaxTokenExpirationSeconds: s.maxLife}, nil
}

func newSigner(t *testing.T) (*signer, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	s := &signer{key: key, header: `{"alg":"ES256","kid":"k1","typ":"JWT"}`, at: time.Unix(1, 0), maxLife: 3600,
		keys: []*externaljwtv1.Key{{KeyId: "k1", Key: der}, {KeyId: "hidden", Key: der, ExcludeFromOidcDiscovery: true}}}
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	externaljwtv1.RegisterExternalJWTSignerServer(g, s)
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)
	return s, path
}

func dial(t *testing.T, path string) (*Signer, error) {
	t.Helper()
	s, err := Dial(t.Context(), path, clock.RealClock{}, NewMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	if err == nil {
		t.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

func TestSign(t *testing.T) {
	for _, c := range []struct{ name, header, bad string }{
		{"good", `{"alg":"ES256","kid":"k1","typ":"JWT"}`, ""},
		{"no type", `{"alg":"ES256","kid":"k1"}`, "bad type"},
		{"no key", `{"alg":"ES256","typ":"JWT"}`, "key id missing"},
		{"long key", `{"alg":"ES256","kid":"` + strings.Repeat("k", 1025) + `","typ":"JWT"}`, "longer than"},
		{"none", `{"alg":"none","kid":"k1","typ":"JWT"}`, "bad signing algorithm"},
		{"more", `{"alg":"ES256","kid":"k1","typ":"JWT","x":1}`, "unknown field"},
		{"hidden key", `{"alg":"ES256","kid":"hidden","typ":"JWT"}`, "excluded from OIDC discovery"},
	} {
		program, path := newSigner(t)
		program.header = c.header
		s, err := dial(t, path)
		if err != nil {
			t.Fatal(err)
		}
		token, err := s.Sign(t.Context(), []byte(`{"sub":"x"}`))
		if (err != nil) != (c.bad != "") || err != nil && !strings.Contains(err.Error(), c.bad) {
			t.Errorf("%s: %v, want %q", c.name, err, c.bad)
		}
		if err == nil && strings.Count(token, ".") != 2 {
			t.Errorf("%s: token %q", c.name, token)
		}
	}
}

// A key that the signer begins to use right after its keys were fetched is asked for: it may be one that is not published.
func TestSignWithNewKey(t *testing.T) {
	program, path := newSigner(t)
	s, err := dial(t, path)
	if err != nil {
		t.Fatal(err)
	}
	program.keys = append(program.keys, &externaljwtv1.Key{KeyId: "later", Key: program.keys[0].Key, ExcludeFromOidcDiscovery: true})
	program.header, program.at = `{"alg":"ES256","kid":"later","typ":"JWT"}`, time.Unix(2, 0)
	if _, err := s.Sign(t.Context(), []byte(`{"sub":"x"}`)); err == nil || !strings.Contains(err.Error(), "excluded from OIDC discovery") {
		t.Errorf("with a key that is not published: %v", err)
	}
}

func TestKeys(t *testing.T) {
	program, path := newSigner(t)
	s, err := dial(t, path)
	if err != nil {
		t.Fatal(err)
	}
	first := s.Keys().Current()
	if !first.Knows("k1") || !first.Knows("hidden") || first.Publishes("hidden") || !first.Publishes("k1") {
		t.Error("the keys are not those of the signer")
	}
	// Unchanged data keeps the same set, so that verified tokens stay remembered.
	if err := s.keys.fetch(t.Context()); err != nil || s.Keys().Current() != first {
		t.Errorf("another set of the same keys, %v", err)
	}
	program.keys[0].KeyId, program.at = "k2", time.Unix(2, 0)
	s.keys.asked = time.Time{}
	if found := s.Keys().Find(t.Context(), "k2"); !found.Knows("k2") || found.Knows("k1") {
		t.Error("a new key was not found")
	}
	// Invented key IDs do not cause a request each.
	before := program.fetches
	for range 5 {
		s.Keys().Find(t.Context(), "nosuch")
	}
	if program.fetches != before {
		t.Errorf("asked %d times for a key that does not exist", program.fetches-before)
	}
}

func TestDialErrors(t *testing.T) {
	for name, change := range map[string]func(*signer){
		"short life": func(s *signer) { s.maxLife = 10 },
		"no keys":    func(s *signer) { s.keys = nil },
		"bad key":    func(s *signer) { s.keys[0].Key = []byte("x") },
		"no key id":  func(s *signer) { s.keys[0].KeyId = "" },
	} {
		program, path := newSigner(t)
		change(program)
		if _, err := dial(t, path); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
