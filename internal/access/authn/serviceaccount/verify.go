package serviceaccount

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/access/authn/cache"
	authnjwt "github.com/kanzen-io/kanzen/internal/access/authn/jwt"
	"github.com/kanzen-io/kanzen/internal/request"
)

// ErrNotOurs means that a token is not this verifier's: it is no JWT or is from another issuer. Another authenticator
// may know it.
var ErrNotOurs = errors.New("not a service account token of this issuer")

// ErrExpired means that the time of a token is over.
var ErrExpired = errors.New("service account token has expired")

// ErrMarkedInvalid means that the token of a secret is valid no more, because nobody has used it for long.
var ErrMarkedInvalid = errors.New("its secret is marked invalid")

var errInvalidated = errors.New("service account token has been invalidated")

// Referents returns the facts that matter about objects that tokens refer to. It is called for each request, so it
// returns no more than needed. Missing objects are NotFound errors of apimachinery.
type Referents interface {
	// Referent returns an object; the namespace is empty of those that are in none.
	Referent(ctx context.Context, resource schema.GroupResource, namespace, name string) (Referent, error)
}

// Referent identifies the object that has a name now.
type Referent struct {
	UID types.UID
	// Deleted is its deletion timestamp; zero if it is not being deleted.
	Deleted time.Time
}

// Verifier verifies bound tokens.
type Verifier struct {
	issuers []string
	keys    KeySource
	objects Referents
	clock   clock.PassiveClock
	cache   tokenCache[privateClaims]

	// Webhooks accepts tokens that are bound to webhook configurations (the gate APIServerWebhookAuthenticationToken).
	Webhooks bool
	// Metrics count uses; nil counts nothing.
	Metrics *Metrics
}

// verified are the claims of a token whose signature was verified with a key of the set keys.
type verified[P any] struct {
	by      *Keys
	public  jwt.Claims
	private P
	valid   request.Credential
}

// tokenCache remembers verified claims by a hash of the token. An entry is valid while the key set is the same.
type tokenCache[P any] = cache.Cache[[sha256.Size]byte, verified[P]]

// NewVerifier creates a verifier for tokens of the issuers. The first issuer signs new tokens.
func NewVerifier(issuers []string, keys KeySource, objects Referents, clk clock.PassiveClock) *Verifier {
	return &Verifier{issuers: issuers, keys: keys, objects: objects, clock: clk}
}

// Verify returns the identity that a token proves and the audiences it was created for. ErrNotOurs means that another
// authenticator may know it.
func (v *Verifier) Verify(ctx context.Context, token string) (Identity, []string, error) {
	claims, err := checkSignature(ctx, token, v.issuers, v.keys, &v.cache)
	if err != nil {
		return Identity{}, nil, err
	}
	identity, err := v.check(ctx, &claims.public, &claims.private.Kubernetes)
	identity.Valid = &claims.valid
	return identity, claims.public.Audience, err
}

// check verifies everything that can change after a token was signed.
func (v *Verifier) check(ctx context.Context, public *jwt.Claims, claims *boundClaims) (Identity, error) {
	now := v.clock.Now()
	if err := checkTimes(public, now); err != nil {
		return Identity{}, err
	}
	identity := Identity{
		Namespace: claims.Namespace, Name: claims.ServiceAccount.Name, UID: claims.ServiceAccount.UID,
		TokenID: public.ID,
	}
	account, err := v.objects.Referent(ctx, corev1.Resource("serviceaccounts"), claims.Namespace, claims.ServiceAccount.Name)
	if err != nil {
		return Identity{}, err
	}
	if err := stands(account, claims.ServiceAccount, now); err != nil {
		return Identity{}, fmt.Errorf("service account %s/%s: %w", claims.Namespace, claims.ServiceAccount.Name, err)
	}
	if claims.Secret != nil {
		secret, err := v.objects.Referent(ctx, corev1.Resource("secrets"), claims.Namespace, claims.Secret.Name)
		if err := boundTo(secret, err, *claims.Secret, now); err != nil {
			return Identity{}, err
		}
	}
	if claims.Pod != nil {
		pod, err := v.objects.Referent(ctx, corev1.Resource("pods"), claims.Namespace, claims.Pod.Name)
		if err := boundTo(pod, err, *claims.Pod, now); err != nil {
			return Identity{}, err
		}
		identity.PodName, identity.PodUID = claims.Pod.Name, claims.Pod.UID
	}
	if claims.Node != nil {
		// In a token with a pod, the node only says where the pod runs; only the pod is checked.
		if claims.Pod == nil {
			node, err := v.objects.Referent(ctx, corev1.Resource("nodes"), "", claims.Node.Name)
			if err := boundTo(node, err, *claims.Node, now); err != nil {
				return Identity{}, err
			}
		}
		identity.NodeName, identity.NodeUID = claims.Node.Name, claims.Node.UID
	}
	if err := v.checkWebhooks(ctx, claims, &identity, now); err != nil {
		return Identity{}, err
	}
	v.warnAfter(ctx, public.Subject, claims.WarnAfter, now)
	return identity, nil
}

// warnAfter records the use of an extended token after the lifetime that its client requested, to reveal clients that
// do not reload their token.
func (v *Verifier) warnAfter(ctx context.Context, subject string, after *jwt.NumericDate, now time.Time) {
	if after == nil || *after == 0 {
		return
	}
	if !now.After(after.Time()) {
		v.Metrics.count(func(m *Metrics) prometheus.Counter { return m.valid })
		return
	}
	v.Metrics.count(func(m *Metrics) prometheus.Counter { return m.stale })
	request.AddAuditAnnotation(ctx, "authentication.k8s.io/stale-token",
		fmt.Sprintf("subject: %s, seconds after warning threshold: %.0f", subject, now.Sub(after.Time()).Seconds()))
}

// boundTo checks the object that a token is bound to.
func boundTo(obj Referent, err error, want ref, now time.Time) error {
	if err != nil {
		return errInvalidated
	}
	return stands(obj, want, now)
}

// stands checks that obj is the object in the token. An object that is being deleted counts until the leeway for clock
// skew has passed.
func stands(obj Referent, want ref, now time.Time) error {
	if string(obj.UID) != want.UID {
		return fmt.Errorf("its UID (%s) is not the token's (%s)", obj.UID, want.UID)
	}
	if deleted := obj.Deleted; !deleted.IsZero() && deleted.Before(now.Add(-jwt.DefaultLeeway)) {
		return errInvalidated
	}
	return nil
}

func checkTimes(public *jwt.Claims, now time.Time) error {
	err := public.Validate(jwt.Expected{Time: now})
	switch {
	case errors.Is(err, jwt.ErrExpired):
		return ErrExpired
	case errors.Is(err, jwt.ErrNotValidYet):
		return errors.New("service account token is not valid yet")
	case errors.Is(err, jwt.ErrIssuedInTheFuture):
		return errors.New("service account token is issued in the future")
	}
	return err
}

// checkSignature returns the claims of a token that is from one of the issuers and signed with one of the keys.
func checkSignature[P any](ctx context.Context, token string, issuers []string, source KeySource, known *tokenCache[P]) (*verified[P], error) {
	hash := sha256.Sum256([]byte(token))
	if claims := known.Get(hash); claims != nil && claims.by == source.Current() {
		return claims, nil
	}
	if !slices.Contains(issuers, authnjwt.UnverifiedIssuer(token)) {
		return nil, ErrNotOurs
	}
	parsed, err := jwt.ParseSigned(token, algorithms)
	if err != nil {
		return nil, ErrNotOurs
	}
	id := ""
	if len(parsed.Headers) > 0 {
		id = parsed.Headers[0].KeyID
	}
	keys := source.Find(ctx, id)
	candidates := keys.candidates(id)
	if len(candidates) == 0 {
		return nil, errors.New("invalid signature, no keys found")
	}
	var errs []error
	for i := range candidates {
		claims := verified[P]{by: keys}
		if err := parsed.Claims(candidates[i].Key, &claims.public, &claims.private); err != nil {
			errs = append(errs, err)
			continue
		}
		if !slices.Contains(issuers, claims.public.Issuer) {
			return nil, fmt.Errorf("token issuer %q is invalid", claims.public.Issuer)
		}
		claims.valid = request.Credential{Kind: request.CredentialToken, From: claims.public.IssuedAt.Time(), Until: claims.public.Expiry.Time()}
		known.Put(hash, &claims)
		return &claims, nil
	}
	return nil, errors.Join(errs...)
}
