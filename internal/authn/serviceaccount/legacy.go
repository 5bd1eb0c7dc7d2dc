package serviceaccount

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/request"
)

// Labels of secrets with tokens.
const (
	// LastUsedLabel is the day of the last use of a secret's token.
	LastUsedLabel = "kubernetes.io/legacy-token-last-used"
	// InvalidSinceLabel ends a secret's token while the secret stays.
	InvalidSinceLabel = "kubernetes.io/legacy-token-invalid-since"
)

// LegacyVerifier verifies tokens that live in secrets. They never expire;
// they end with the secret.
type LegacyVerifier struct {
	keys    KeySource
	objects Objects
	clock   clock.PassiveClock
	cache   tokenCache[legacyClaims]

	// MarkUsed sets LastUsedLabel of a secret to a day, if it is not nil. It
	// is called at most once a day for a token that is in use, in the
	// request's path; it must not wait long, and logs its own errors.
	MarkUsed func(ctx context.Context, secret *corev1.Secret, day string)
	// NoLookup trusts the signature alone (--service-account-lookup=false).
	NoLookup bool
}

// NewLegacyVerifier verifies tokens of secrets.
func NewLegacyVerifier(keys KeySource, objects Objects, clk clock.PassiveClock) *LegacyVerifier {
	return &LegacyVerifier{keys: keys, objects: objects, clock: clk}
}

// Verify returns whom a token proves. It is for no particular audience.
// ErrNotOurs leaves the token to others.
func (v *LegacyVerifier) Verify(ctx context.Context, token string) (Identity, error) {
	verified, err := checkSignature(ctx, token, []string{LegacyIssuer}, v.keys, &v.cache)
	if err != nil {
		return Identity{}, err
	}
	claims := &verified.private
	if err := claims.check(verified.public.Subject); err != nil {
		return Identity{}, err
	}
	identity := Identity{Namespace: claims.Namespace, Name: claims.Name, UID: claims.UID}
	if v.NoLookup {
		return identity, nil
	}
	return identity, v.lookup(ctx, token, claims)
}

// check says whether the claims are complete and agree with the subject.
func (c *legacyClaims) check(subject string) error {
	for _, claim := range []struct{ name, value string }{
		{"sub", subject}, {"namespace", c.Namespace}, {"secretName", c.SecretName},
		{"serviceAccountName", c.Name}, {"serviceAccountUID", c.UID},
	} {
		if claim.value == "" {
			return fmt.Errorf("%s claim is missing", claim.name)
		}
	}
	namespace, name, err := SplitUsername(subject)
	if err != nil || namespace != c.Namespace || name != c.Name {
		return errors.New("sub claim is invalid")
	}
	return nil
}

// lookup holds the token to the secret and the account of today.
func (v *LegacyVerifier) lookup(ctx context.Context, token string, claims *legacyClaims) error {
	secret, err := v.objects.Secret(ctx, claims.Namespace, claims.SecretName)
	if err != nil || secret.DeletionTimestamp != nil {
		return errInvalidated
	}
	if subtle.ConstantTimeCompare(secret.Data[corev1.ServiceAccountTokenKey], []byte(token)) == 0 {
		return errors.New("token does not match the server's copy")
	}
	account, err := v.objects.ServiceAccount(ctx, claims.Namespace, claims.Name)
	if err != nil {
		return err
	}
	if account.DeletionTimestamp != nil {
		return fmt.Errorf("service account %s/%s has been deleted", claims.Namespace, claims.Name)
	}
	if string(account.UID) != claims.UID {
		return fmt.Errorf("service account UID (%s) does not match claim (%s)", account.UID, claims.UID)
	}
	v.markUsed(ctx, secret)
	if secret.Labels[InvalidSinceLabel] != "" {
		return fmt.Errorf("the token of secret %s/%s is marked invalid by its label %s", claims.Namespace, claims.SecretName, InvalidSinceLabel)
	}
	for _, ref := range account.Secrets {
		if ref.Name == secret.Name {
			request.AddWarning(ctx, "Use tokens from the TokenRequest API or manually created secret-based tokens instead of auto-generated secret-based tokens.")
			break
		}
	}
	return nil
}

func (v *LegacyVerifier) markUsed(ctx context.Context, secret *corev1.Secret) {
	if v.MarkUsed == nil {
		return
	}
	now := v.clock.Now().UTC()
	today, tomorrow := now.Format("2006-01-02"), now.AddDate(0, 0, 1).Format("2006-01-02")
	// A server whose clock runs ahead may have written tomorrow.
	if last := secret.Labels[LastUsedLabel]; last != today && last != tomorrow {
		v.MarkUsed(ctx, secret, today)
	}
}
