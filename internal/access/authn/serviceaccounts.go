package authn

import (
	"context"
	"errors"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/access/authn/serviceaccount"
)

// ServiceAccounts accepts bound tokens of service accounts. implicit are the API server's own audiences, which apply to
// a token without audiences.
func ServiceAccounts(v *serviceaccount.Verifier, implicit []string) TokenAuthenticator {
	return &serviceAccounts{verifier: v, implicit: implicit}
}

type serviceAccounts struct {
	verifier *serviceaccount.Verifier
	implicit []string
}

func (s *serviceAccounts) AuthenticateToken(ctx context.Context, token string, audiences []string) (*Response, error) {
	identity, made, err := s.verifier.Verify(ctx, token)
	if errors.Is(err, serviceaccount.ErrNotOurs) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(made) == 0 {
		made = s.implicit
	}
	if len(audiences) == 0 {
		audiences = s.implicit
	}
	good := Intersect(made, audiences)
	if len(good) == 0 && len(s.implicit) > 0 {
		return nil, errors.New("the service account token is for other audiences")
	}
	return &Response{User: identity.User(), Audiences: good, Valid: identity.Valid}, nil
}

// LegacyServiceAccounts accepts tokens stored in secrets; they are valid for the API server's own audiences.
func LegacyServiceAccounts(v *serviceaccount.LegacyVerifier, implicit []string) TokenAuthenticator {
	return ForAudiences(implicit, func(ctx context.Context, token string) (user.Info, error) {
		identity, err := v.Verify(ctx, token)
		if errors.Is(err, serviceaccount.ErrNotOurs) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return identity.User(), nil
	})
}
