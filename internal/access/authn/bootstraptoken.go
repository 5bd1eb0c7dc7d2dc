package authn

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/request"
)

const (
	bootstrapNamespace    = "kube-system"
	bootstrapSecretPrefix = "bootstrap-token-"
	bootstrapSecretType   = "bootstrap.kubernetes.io/token"
	bootstrapUserPrefix   = "system:bootstrap:"
	bootstrapGroup        = "system:bootstrappers"
)

// bootstrapGroupName matches the extra groups that a bootstrap token may have.
var bootstrapGroupName = regexp.MustCompile(`\Asystem:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]\z`)

// Secrets returns a secret. A missing secret is a NotFound error of apimachinery.
type Secrets interface {
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
}

// errBootstrapExpired means that a bootstrap token is the right one, and its time is over. Clients and reviews are told what they are told of
// every other token that is not known.
var errBootstrapExpired = errors.New(errInvalidToken.Error())

// BootstrapTokens accepts the tokens that nodes join with: ID.SECRET, stored in secrets of kube-system. They are valid
// for the audiences.
func BootstrapTokens(secrets Secrets, audiences []string, clk clock.PassiveClock) TokenAuthenticator {
	return &bootstrapTokens{secrets, audiences, clk}
}

type bootstrapTokens struct {
	secrets   Secrets
	audiences []string
	clock     clock.PassiveClock
}

// AuthenticateToken is part of TokenAuthenticator.
func (b *bootstrapTokens) AuthenticateToken(ctx context.Context, token string, audiences []string) (*Response, error) {
	var valid *request.Credential
	r, err := ForAudiences(b.audiences, func(ctx context.Context, token string) (u user.Info, err error) {
		u, valid, err = b.find(ctx, token)
		return u, err
	}).AuthenticateToken(ctx, token, audiences)
	if r != nil {
		r.Valid = valid
	}
	return r, err
}

// find returns the user of a token, and how long the token is valid; nil: for ever.
func (b *bootstrapTokens) find(ctx context.Context, token string) (user.Info, *request.Credential, error) {
	id, secret, ok := splitBootstrapToken(token)
	if !ok {
		return nil, nil, nil
	}
	s, err := b.secrets.Secret(ctx, bootstrapNamespace, bootstrapSecretPrefix+id)
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("look up bootstrap token: %w", err)
	}
	groups, ok := bootstrapGroups(s)
	if !ok || !bootstrapStands(s, id, secret) {
		return nil, nil, nil
	}
	var valid *request.Credential
	if len(s.Data["expiration"]) > 0 {
		valid = &request.Credential{Kind: request.CredentialBootstrapToken, From: s.CreationTimestamp.Time, Until: bootstrapEnd(s)}
		if !b.clock.Now().Before(valid.Until) {
			return nil, nil, errBootstrapExpired
		}
	}
	return &user.DefaultInfo{Name: bootstrapUserPrefix + id, Groups: groups}, valid, nil
}

// bootstrapEnd is when a token ends. One that cannot be read is over.
func bootstrapEnd(s *corev1.Secret) time.Time {
	end, err := time.Parse(time.RFC3339, string(s.Data["expiration"]))
	if err != nil {
		return time.Time{}
	}
	return end
}

func splitBootstrapToken(token string) (id, secret string, ok bool) {
	id, secret, ok = strings.Cut(token, ".")
	return id, secret, ok && len(id) == 6 && len(secret) == 16 && isLowerAlphanumeric(id) && isLowerAlphanumeric(secret)
}

func isLowerAlphanumeric(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

func bootstrapStands(s *corev1.Secret, id, secret string) bool {
	if s.DeletionTimestamp != nil || s.Type != bootstrapSecretType {
		return false
	}
	return subtle.ConstantTimeCompare(s.Data["token-secret"], []byte(secret)) == 1 &&
		string(s.Data["token-id"]) == id &&
		string(s.Data["usage-bootstrap-authentication"]) == "true"
}

// bootstrapGroups returns the sorted groups of a token's user; ok is false if the secret names a group that no
// bootstrap token may have.
func bootstrapGroups(s *corev1.Secret) (groups []string, ok bool) {
	groups = []string{bootstrapGroup}
	if extra := string(s.Data["auth-extra-groups"]); extra != "" {
		for _, group := range strings.Split(extra, ",") {
			if !bootstrapGroupName.MatchString(group) {
				return nil, false
			}
			groups = append(groups, group)
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups), true
}
