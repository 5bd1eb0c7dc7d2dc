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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/authn/cache"
	authnjwt "github.com/kanzen-io/kanzen/internal/authn/jwt"
	"github.com/kanzen-io/kanzen/internal/request"
)

// ErrNotOurs says that a token is none of this verifier's: not a JWT, or one
// of another issuer. Others may know it.
var ErrNotOurs = errors.New("not a service account token of this issuer")

var errInvalidated = errors.New("service account token has been invalidated")

// Referents tells of what tokens refer to. It is asked about each request, and
// so tells no more than is needed. Missing objects are NotFound errors of
// apimachinery.
type Referents interface {
	// Referent is an object of a resource ("pods"); the namespace of nodes is empty.
	Referent(ctx context.Context, resource, namespace, name string) (Referent, error)
}

// Referent is which object it is now that has a name.
type Referent struct {
	UID types.UID
	// Deleted is when its deletion was asked for, the zero time if it was not.
	Deleted time.Time
}

// Verifier verifies bound tokens.
type Verifier struct {
	issuers []string
	keys    KeySource
	objects Referents
	clock   clock.PassiveClock
	cache   tokenCache[privateClaims]

	// Metrics count uses; nil counts nothing.
	Metrics *Metrics
}

// verified are the claims of a token whose signature was found good with one
// of some keys.
type verified[P any] struct {
	by      *Keys
	public  jwt.Claims
	private P
}

// tokenCache remembers them by a hash of the token. That holds as long as the
// keys are the same.
type tokenCache[P any] = cache.Cache[[sha256.Size]byte, verified[P]]

// NewVerifier verifies the tokens of the issuers (the first one signs now, the
// others did before).
func NewVerifier(issuers []string, keys KeySource, objects Referents, clk clock.PassiveClock) *Verifier {
	return &Verifier{issuers: issuers, keys: keys, objects: objects, clock: clk}
}

// Verify returns whom a token proves and the audiences it was made for.
// ErrNotOurs leaves the token to others.
func (v *Verifier) Verify(ctx context.Context, token string) (Identity, []string, error) {
	claims, err := checkSignature(ctx, token, v.issuers, v.keys, &v.cache)
	if err != nil {
		return Identity{}, nil, err
	}
	identity, err := v.check(ctx, &claims.public, &claims.private.Kubernetes)
	return identity, claims.public.Audience, err
}

// check looks at everything that can change after a token was signed.
func (v *Verifier) check(ctx context.Context, public *jwt.Claims, claims *boundClaims) (Identity, error) {
	now := v.clock.Now()
	if err := checkTimes(public, now); err != nil {
		return Identity{}, err
	}
	identity := Identity{
		Namespace: claims.Namespace, Name: claims.ServiceAccount.Name, UID: claims.ServiceAccount.UID,
		TokenID: public.ID,
	}
	account, err := v.objects.Referent(ctx, "serviceaccounts", claims.Namespace, claims.ServiceAccount.Name)
	if err != nil {
		return Identity{}, err
	}
	if err := stands(account, claims.ServiceAccount, now); err != nil {
		return Identity{}, fmt.Errorf("service account %s/%s: %w", claims.Namespace, claims.ServiceAccount.Name, err)
	}
	if claims.Secret != nil {
		secret, err := v.objects.Referent(ctx, "secrets", claims.Namespace, claims.Secret.Name)
		if err := boundTo(secret, err, *claims.Secret, now); err != nil {
			return Identity{}, err
		}
	}
	if claims.Pod != nil {
		pod, err := v.objects.Referent(ctx, "pods", claims.Namespace, claims.Pod.Name)
		if err := boundTo(pod, err, *claims.Pod, now); err != nil {
			return Identity{}, err
		}
		identity.PodName, identity.PodUID = claims.Pod.Name, claims.Pod.UID
	}
	if claims.Node != nil {
		// Beside a pod the node only says where the pod runs; the pod decides.
		if claims.Pod == nil {
			node, err := v.objects.Referent(ctx, "nodes", "", claims.Node.Name)
			if err := boundTo(node, err, *claims.Node, now); err != nil {
				return Identity{}, err
			}
		}
		identity.NodeName, identity.NodeUID = claims.Node.Name, claims.Node.UID
	}
	v.warnAfter(ctx, public.Subject, claims.WarnAfter, now)
	return identity, nil
}

// warnAfter notes the use of a token that lives longer than its client asked
// for, so that those can be found who do not read theirs again.
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

// boundTo checks the object that a token ends with.
func boundTo(obj Referent, err error, want ref, now time.Time) error {
	if err != nil {
		return errInvalidated
	}
	return stands(obj, want, now)
}

// stands says whether an object is still the one that was meant. One that is
// being deleted counts until the leeway has passed, which is granted to clocks.
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
		return errors.New("service account token has expired")
	case errors.Is(err, jwt.ErrNotValidYet):
		return errors.New("service account token is not valid yet")
	case errors.Is(err, jwt.ErrIssuedInTheFuture):
		return errors.New("service account token is issued in the future")
	}
	return err
}

// checkSignature returns the claims of a token of one of the issuers that is
// signed with one of the keys.
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
		known.Put(hash, &claims)
		return &claims, nil
	}
	return nil, errors.Join(errs...)
}
