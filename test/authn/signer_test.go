package authn

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	externaljwtv1 "k8s.io/externaljwt/apis/v1"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// signer is a program that has the keys of service accounts.
type signer struct {
	externaljwtv1.UnimplementedExternalJWTSignerServer
	key *ecdsa.PrivateKey
}

func (s *signer) Sign(_ context.Context, r *externaljwtv1.SignJWTRequest) (*externaljwtv1.SignJWTResponse, error) {
	header := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256","kid":"hsm","typ":"JWT"}`))
	sum := sha256.Sum256([]byte(header + "." + r.Claims))
	a, b, err := ecdsa.Sign(rand.Reader, s.key, sum[:])
	if err != nil {
		return nil, err
	}
	signature := append(a.FillBytes(make([]byte, 32)), b.FillBytes(make([]byte, 32))...)
	return &externaljwtv1.SignJWTResponse{Header: header, Signature: base64.RawURLEncoding.EncodeToString(signature)}, nil
}

func (s *signer) FetchKeys(context.Context, *externaljwtv1.FetchKeysRequest) (*externaljwtv1.FetchKeysResponse, error) {
	der, err := x509.MarshalPKIXPublicKey(s.key.Public())
	return &externaljwtv1.FetchKeysResponse{Keys: []*externaljwtv1.Key{{KeyId: "hsm", Key: der}, {KeyId: "retired", Key: der, ExcludeFromOidcDiscovery: true}},
		DataTimestamp: timestamppb.New(time.Unix(1, 0)), RefreshHintSeconds: 60}, err
}

func (s *signer) Metadata(context.Context, *externaljwtv1.MetadataRequest) (*externaljwtv1.MetadataResponse, error) {
	return &externaljwtv1.MetadataResponse{MaxTokenExpirationSeconds: 7200}, nil
}

func TestExternalSigner(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	externaljwtv1.RegisterExternalJWTSignerServer(g, &signer{key: key})
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)
	s, c := started(t, kanzentest.Flags("--service-account-signing-endpoint="+path))
	day := int64(24 * 60 * 60)
	r, err := c.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if *r.Spec.ExpirationSeconds != 7200 {
		t.Errorf("a token of %d seconds, longer than the signer allows", *r.Spec.ExpirationSeconds)
	}
	parsed, _, err := jwt.NewParser().ParseUnverified(r.Status.Token, jwt.MapClaims{})
	if err != nil || parsed.Header["kid"] != "hsm" {
		t.Errorf("header %v, %v", parsed.Header, err)
	}
	if u, err := whoami(t.Context(), with(s, r.Status.Token)); err != nil || u.Username != "system:serviceaccount:default:default" {
		t.Errorf("%+v, %v", u, err)
	}
	published, err := c.RESTClient().Get().AbsPath("/openid/v1/jwks").SetHeader("Accept", "*/*").DoRaw(t.Context())
	if err != nil || !strings.Contains(string(published), `"hsm"`) || strings.Contains(string(published), "retired") {
		t.Errorf("published %s, %v", published, err)
	}
}

// TestTokensOfSecrets are those of before: they live in a secret, which says
// when they were last used and whether they still count.
func TestTokensOfSecrets(t *testing.T) {
	dir := t.TempDir()
	s, c := started(t, kanzentest.DataDir(dir))
	account, err := c.CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const prefix = "kubernetes.io/serviceaccount/"
	token := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{"iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:default:default",
		prefix + "namespace": "default", prefix + "secret.name": "old", prefix + "service-account.name": "default", prefix + "service-account.uid": string(account.UID)})
	text, err := token.SignedString(ownKey(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := whoami(t.Context(), with(s, text)); !apierrors.IsUnauthorized(err) {
		t.Errorf("without its secret: %v", err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "old", Annotations: map[string]string{"kubernetes.io/service-account.name": "default"}},
		Type: corev1.SecretTypeServiceAccountToken, Data: map[string][]byte{"token": []byte(text)}}
	if _, err := c.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if u, err := whoami(t.Context(), with(s, text)); err != nil || u.UID != string(account.UID) {
		t.Errorf("%+v, %v", u, err)
	}
	within(t, 30*time.Second, "the use is written down", func() bool {
		got, err := c.CoreV1().Secrets("default").Get(t.Context(), "old", metav1.GetOptions{})
		return err == nil && got.Labels["kubernetes.io/legacy-token-last-used"] == time.Now().UTC().Format(time.DateOnly)
	})
	// A patch, since the server writes to the secret as well: its use and what belongs in it.
	invalid := []byte(`{"metadata":{"labels":{"kubernetes.io/legacy-token-invalid-since":"2026-01-01"}}}`)
	if _, err := c.CoreV1().Secrets("default").Patch(t.Context(), "old", types.MergePatchType, invalid, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	within(t, 30*time.Second, "the token does not count any more", func() bool {
		_, err := whoami(t.Context(), with(s, text))
		return apierrors.IsUnauthorized(err)
	})
}

// ownKey is the key that a server signs tokens with.
func ownKey(t *testing.T, dir string) *ecdsa.PrivateKey {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "pki", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if name := filepath.Base(f); !strings.HasSuffix(name, ".key") || !strings.Contains(name, "service-account") && !strings.HasPrefix(name, "sa") {
			continue
		}
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(data)
		if block == nil {
			continue
		}
		if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
			return key
		}
		if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			if ec, ok := key.(*ecdsa.PrivateKey); ok {
				return ec
			}
		}
	}
	t.Fatalf("no key of service accounts among %v", files)
	return nil
}
