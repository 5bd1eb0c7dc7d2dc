package serviceaccount

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/uuid"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/request"
)

const (
	// minLife and maxLife bound the requested lifetime of a token, in seconds.
	minLife = 10 * 60
	maxLife = 1 << 32
	// defaultLife applies to a request without a lifetime.
	defaultLife = 60 * 60

	// podLife is the lifetime that pod volumes request. Such tokens are really valid for extendedLife, for clients that
	// read their file only once; the "warnafter" claim reveals their use after podLife.
	podLife      = 60*60 + 7
	extendedLife = 365 * 24 * 60 * 60
)

var tokenRequestKind = schema.GroupKind{Group: authenticationv1.GroupName, Kind: "TokenRequest"}

// TokenIssuer answers TokenRequests: the "token" subresource of service accounts.
type TokenIssuer struct {
	Signer  *Signer
	Objects Objects
	Clock   clock.PassiveClock
	// Audiences are the API server's own, the default of requests.
	Audiences []string
	// MayAttest returns an error if an account may not have tokens for webhooks that are asked about an API group; nil: there are no
	// such tokens (the gate APIServerWebhookAuthenticationToken).
	MayAttest func(ctx context.Context, account user.Info, group string) error
	// AnyUID lets a request name another UID than the account's, with a warning (the gate TokenRequestServiceAccountUIDValidation
	// is off).
	AnyUID bool
	// MaxLife, if not zero, bounds the requested lifetime (--service-account-max-token-expiration).
	MaxLife time.Duration
	// Extend makes pods' tokens live longer than requested (--service-account-extend-token-expiration).
	Extend bool
	// MaxExtended, if not zero, bounds the lifetime of such tokens: an external signer has its own limit.
	MaxExtended time.Duration
	// NewID returns a new token ID; nil: random UUIDs.
	NewID func() string
}

// Create creates a token for the named service account and returns a copy of the request with its status. Check says whether admission allows the
// request, when it is completed and well-formed.
func (t *TokenIssuer) Create(ctx context.Context, namespace, name string, in *authenticationv1.TokenRequest,
	check func(context.Context, *authenticationv1.TokenRequest) error) (*authenticationv1.TokenRequest, error) {
	out := in.DeepCopy()
	if err := matchesPath(out, namespace, name); err != nil {
		return nil, err
	}
	account, err := t.Objects.ServiceAccount(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	if err := t.matchesUID(ctx, out, account); err != nil {
		return nil, err
	}
	now := t.Clock.Now()
	out.Name, out.Namespace = account.Name, account.Namespace
	out.CreationTimestamp = metav1.NewTime(now)
	out.Status = authenticationv1.TokenRequestStatus{}
	if len(out.Spec.Audiences) == 0 {
		out.Spec.Audiences = slices.Clone(t.Audiences)
	}
	if out.Spec.ExpirationSeconds == nil {
		life := int64(defaultLife)
		out.Spec.ExpirationSeconds = &life
	}
	if errs := validateTokenRequest(out); len(errs) > 0 {
		return nil, apierrors.NewInvalid(tokenRequestKind, "", errs)
	}
	if err := check(ctx, out); err != nil {
		return nil, err
	}
	bound, err := t.bind(ctx, account, &out.Spec)
	if err != nil {
		return nil, err
	}
	life := t.shorten(ctx, out.Spec.ExpirationSeconds)
	if t.Extend && bound.Pod != nil && life == podLife && t.forUsOnly(out.Spec.Audiences) {
		bound.WarnAfter = jwt.NewNumericDate(now.Add(podLife * time.Second))
		life = extendedLife
		if limit := int64(t.MaxExtended / time.Second); limit > 0 {
			life = min(life, limit)
		}
	}
	id := uuid.NewString
	if t.NewID != nil {
		id = t.NewID
	}
	tokenID := id()
	token, err := t.sign(ctx, bound, out.Spec.Audiences, tokenID, now, life)
	var refusal apierrors.APIStatus
	switch {
	case errors.As(err, &refusal): // a server that signs none
		return nil, err
	case err != nil:
		return nil, apierrors.NewInternalError(fmt.Errorf("failed to generate token: %w", err))
	}
	request.AddAuditAnnotation(ctx, "authentication.kubernetes.io/issued-credential-id", CredentialID(tokenID))
	// Return the requested expiration, even if the token lives longer.
	told := time.Duration(*out.Spec.ExpirationSeconds) * time.Second
	out.Status = authenticationv1.TokenRequestStatus{Token: token, ExpirationTimestamp: metav1.NewTime(now.Add(told))}
	return out, nil
}

// matchesUID checks the UID in the body, and sets it where there is none.
func (t *TokenIssuer) matchesUID(ctx context.Context, r *authenticationv1.TokenRequest, account *corev1.ServiceAccount) error {
	if r.UID == "" {
		r.UID = account.UID
	}
	if r.UID == account.UID {
		return nil
	}
	mismatch := fmt.Errorf("the UID in the token request (%s) does not match the UID of the service account (%s)", r.UID, account.UID)
	if !t.AnyUID {
		return apierrors.NewConflict(schema.GroupResource{Group: authenticationv1.GroupName, Resource: "TokenRequest"}, account.Name, mismatch)
	}
	request.AddAuditAnnotation(ctx, "authentication.k8s.io/token-request-uid-mismatch", mismatch.Error())
	request.AddWarning(ctx, mismatch.Error()+" but TokenRequestServiceAccountUIDValidation is not enabled. In the future, this will return a conflict error")
	return nil
}

func (t *TokenIssuer) sign(ctx context.Context, bound boundClaims, audiences []string, id string, now time.Time, life int64) (string, error) {
	return t.Signer.sign(ctx, jwt.Claims{
		Subject:   Username(bound.Namespace, bound.ServiceAccount.Name),
		Audience:  audiences,
		IssuedAt:  jwt.NewNumericDate(now),
		NotBefore: jwt.NewNumericDate(now),
		Expiry:    jwt.NewNumericDate(now.Add(time.Duration(life) * time.Second)),
		ID:        id,
	}, privateClaims{Kubernetes: bound})
}

// matchesPath checks that name and namespace in the body match those in the path.
func matchesPath(r *authenticationv1.TokenRequest, namespace, name string) error {
	meta := field.NewPath("metadata")
	if r.Name != "" && r.Name != name {
		return apierrors.NewInvalid(tokenRequestKind, name, field.ErrorList{
			field.Invalid(meta.Child("name"), r.Name, "must match the service account name if specified")})
	}
	if r.Namespace != "" && r.Namespace != namespace {
		return apierrors.NewInvalid(tokenRequestKind, name, field.ErrorList{
			field.Invalid(meta.Child("namespace"), r.Namespace, "must match the service account namespace if specified")})
	}
	return nil
}

func validateTokenRequest(r *authenticationv1.TokenRequest) (errs field.ErrorList) {
	path, life := field.NewPath("spec", "expirationSeconds"), *r.Spec.ExpirationSeconds
	switch {
	case life < minLife:
		errs = append(errs, field.Invalid(path, life, "may not specify a duration less than 10 minutes"))
	case life > maxLife:
		errs = append(errs, field.Invalid(path, life, "may not specify a duration larger than 2^32 seconds"))
	}
	return append(errs, validateAttestations(&r.Spec)...)
}

// bind returns the claims of a token that is revoked with the object it refers to.
func (t *TokenIssuer) bind(ctx context.Context, account *corev1.ServiceAccount, spec *authenticationv1.TokenRequestSpec) (boundClaims, error) {
	claims, to := boundClaims{Namespace: account.Namespace, ServiceAccount: *refTo(account)}, spec.BoundObjectRef
	if to == nil {
		return claims, nil
	}
	kind := schema.FromAPIVersionAndKind(to.APIVersion, to.Kind)
	var found *ref
	var err error
	switch group := kind.GroupKind(); {
	case isWebhook(to):
		if found, err = t.bindWebhooks(ctx, account, spec, &claims); err != nil {
			return claims, err
		}
	case group == schema.GroupKind{Kind: "Pod"}:
		pod, err := t.Objects.Pod(ctx, account.Namespace, to.Name)
		if err != nil {
			return claims, err
		}
		if pod.Spec.ServiceAccountName != account.Name {
			return claims, apierrors.NewBadRequest(fmt.Sprintf("cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", account.Name))
		}
		if claims.Node, err = t.nodeOf(ctx, pod); err != nil {
			return claims, err
		}
		claims.Pod = refTo(pod)
		found = claims.Pod
	case group == schema.GroupKind{Kind: "Secret"}:
		secret, err := t.Objects.Secret(ctx, account.Namespace, to.Name)
		if err != nil {
			return claims, err
		}
		claims.Secret = refTo(secret)
		found = claims.Secret
	case group == schema.GroupKind{Kind: "Node"}:
		node, err := t.Objects.Node(ctx, to.Name)
		if err != nil {
			return claims, err
		}
		claims.Node = refTo(node)
		found = claims.Node
	default:
		return claims, apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s", kind))
	}
	if to.UID != "" && string(to.UID) != found.UID {
		return claims, apierrors.NewConflict(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, to.Name,
			fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", to.UID))
	}
	return claims, nil
}

// nodeOf returns the node of a pod. A node that is not registered has no UID.
func (t *TokenIssuer) nodeOf(ctx context.Context, pod *corev1.Pod) (*ref, error) {
	name := pod.Spec.NodeName
	if name == "" {
		return nil, nil
	}
	node, err := t.Objects.Node(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return &ref{Name: name}, nil
	case err != nil:
		return nil, apierrors.NewInternalError(err)
	}
	return refTo(node), nil
}

// shorten reduces the requested lifetime, in seconds, to the server's maximum.
func (t *TokenIssuer) shorten(ctx context.Context, life *int64) int64 {
	if limit := int64(t.MaxLife / time.Second); limit > 0 && *life > limit {
		request.AddWarning(ctx, fmt.Sprintf("requested expiration of %d seconds shortened to %d seconds", *life, limit))
		*life = limit
	}
	return *life
}

// forUsOnly reports whether the audiences are only those of this API server.
func (t *TokenIssuer) forUsOnly(audiences []string) bool {
	return !slices.ContainsFunc(audiences, func(a string) bool { return !slices.Contains(t.Audiences, a) })
}
