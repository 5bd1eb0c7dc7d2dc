package serviceaccount

import (
	"context"
	"crypto"
	"encoding/json"
	"fmt"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LegacyIssuer is the issuer of tokens stored in secrets.
const LegacyIssuer = "kubernetes/serviceaccount"

// privateClaims are a bound token's claims beside the registered ones.
type privateClaims struct {
	Kubernetes boundClaims `json:"kubernetes.io,omitzero"`
}

type boundClaims struct {
	Namespace      string `json:"namespace,omitempty"`
	ServiceAccount ref    `json:"serviceaccount,omitempty"`
	Pod            *ref   `json:"pod,omitempty"`
	Secret         *ref   `json:"secret,omitempty"`
	Node           *ref   `json:"node,omitempty"`
	// Only tokens for webhooks attest something.
	ValidatingWebhook *ref                                         `json:"validatingwebhookconfiguration,omitempty"`
	MutatingWebhook   *ref                                         `json:"mutatingwebhookconfiguration,omitempty"`
	Attestations      map[string]authenticationv1.AttestationValue `json:"attestations,omitempty"`
	WarnAfter         *jwt.NumericDate                             `json:"warnafter,omitempty"`
}

// ref refers to an object that existed when the token was created.
type ref struct {
	Name string `json:"name,omitempty"`
	UID  string `json:"uid,omitempty"`
}

func refTo(obj metav1.Object) *ref {
	return &ref{Name: obj.GetName(), UID: string(obj.GetUID())}
}

// legacyClaims are the claims of a token stored in a secret.
type legacyClaims struct {
	Name       string `json:"kubernetes.io/serviceaccount/service-account.name"`
	UID        string `json:"kubernetes.io/serviceaccount/service-account.uid"`
	SecretName string `json:"kubernetes.io/serviceaccount/secret.name"`
	Namespace  string `json:"kubernetes.io/serviceaccount/namespace"`
}

// Signer signs tokens for one issuer.
type Signer struct {
	issuer string
	signed func(ctx context.Context, payload []byte) (string, error)
}

// NewExternalSigner creates a signer that calls signed, which returns the whole token for a payload.
func NewExternalSigner(issuer string, signed func(ctx context.Context, payload []byte) (string, error)) *Signer {
	return &Signer{issuer: issuer, signed: signed}
}

// NewSigner creates a signer with an RSA or ECDSA key.
func NewSigner(issuer string, key crypto.Signer) (*Signer, error) {
	public, err := webKey(key.Public())
	if err != nil {
		return nil, err
	}
	private := public
	private.Key = key
	signer, err := jose.NewSigner(jose.SigningKey{
		Algorithm: jose.SignatureAlgorithm(public.Algorithm), Key: private,
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("make a token signer: %w", err)
	}
	return &Signer{issuer: issuer, signed: func(_ context.Context, payload []byte) (string, error) {
		token, err := signer.Sign(payload)
		if err != nil {
			return "", err
		}
		return token.CompactSerialize()
	}}, nil
}

// sign creates a token. Registered claims override private ones of the same name.
func (s *Signer) sign(ctx context.Context, public jwt.Claims, private any) (string, error) {
	// The audience is always a list: the library would write a single audience as a string, which some readers of
	// Kubernetes tokens do not expect.
	audience := struct {
		Audience []string `json:"aud,omitempty"`
	}{public.Audience}
	public.Issuer, public.Audience = s.issuer, nil
	payload, err := merge(private, public, audience)
	if err != nil {
		return "", err
	}
	return s.signed(ctx, payload)
}

// merge merges several objects into one JSON object; later ones override.
func merge(parts ...any) ([]byte, error) {
	all := map[string]json.RawMessage{}
	for _, part := range parts {
		data, err := json.Marshal(part)
		if err == nil {
			err = json.Unmarshal(data, &all)
		}
		if err != nil {
			return nil, err
		}
	}
	return json.Marshal(all)
}

// SignLegacy creates the token that is stored in a service account's secret. It never expires; deleting the secret
// revokes it. The signer's issuer must be LegacyIssuer.
func (s *Signer) SignLegacy(account *corev1.ServiceAccount, secretName string) (string, error) {
	return s.sign(context.Background(), jwt.Claims{Subject: Username(account.Namespace, account.Name)}, legacyClaims{
		Namespace: account.Namespace, Name: account.Name, UID: string(account.UID), SecretName: secretName,
	})
}
