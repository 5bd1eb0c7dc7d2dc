// Package webhook authenticates tokens by sending TokenReviews to another server
// (--authentication-token-webhook-config-file).
package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	authenticationv1 "k8s.io/api/authentication/v1"
	authenticationv1beta1 "k8s.io/api/authentication/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/access/authn"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/wire/remote"
)

// Authenticator is a token webhook.
type Authenticator struct {
	Client *remote.Client
	// Version of the reviews, v1 or v1beta1.
	Version string
	// Implicit are the audiences of a token for which the webhook names none: the API server's own.
	Implicit []string
	Retry    remote.Retry
	Log      *slog.Logger
}

// Validate returns an error for an unknown version.
func (w *Authenticator) Validate() error {
	if w.Version != "v1" && w.Version != "v1beta1" {
		return fmt.Errorf("unsupported authentication webhook version %q, supported versions are %q, %q", w.Version, "v1", "v1beta1")
	}
	return nil
}

// AuthenticateToken is part of authn.TokenAuthenticator.
func (w *Authenticator) AuthenticateToken(ctx context.Context, token string, audiences []string) (*authn.Response, error) {
	var status authenticationv1.TokenReviewStatus
	err := w.Retry.Do(ctx, func() error {
		var err error
		status, err = w.ask(ctx, token, audiences)
		return err
	})
	if err != nil {
		w.Log.Log(ctx, request.FailureLevel(ctx, slog.LevelError), "Failed to make webhook authenticator request", "err", err)
		return nil, err
	}
	var good []string
	if len(audiences) > 0 {
		meant := w.Implicit
		if len(status.Audiences) > 0 {
			meant = status.Audiences
		}
		if good = authn.Intersect(audiences, meant); len(good) == 0 {
			return nil, nil
		}
	}
	if !status.Authenticated {
		if status.Error != "" {
			return nil, errors.New(status.Error)
		}
		return nil, nil
	}
	u := &user.DefaultInfo{Name: status.User.Username, UID: status.User.UID, Groups: status.User.Groups}
	if status.User.Extra != nil {
		u.Extra = make(map[string][]string, len(status.User.Extra))
		for k, v := range status.User.Extra {
			u.Extra[k] = v
		}
	}
	return &authn.Response{User: u, Audiences: good}, nil
}

func (w *Authenticator) ask(ctx context.Context, token string, audiences []string) (authenticationv1.TokenReviewStatus, error) {
	if w.Version == "v1beta1" {
		return w.askOld(ctx, token, audiences)
	}
	var answer authenticationv1.TokenReview
	_, err := w.Client.Post(ctx, &authenticationv1.TokenReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authenticationv1.SchemeGroupVersion.String(), Kind: "TokenReview"},
		Spec:     authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences},
	}, &answer)
	return answer.Status, err
}

func (w *Authenticator) askOld(ctx context.Context, token string, audiences []string) (authenticationv1.TokenReviewStatus, error) {
	var answer authenticationv1beta1.TokenReview
	_, err := w.Client.Post(ctx, &authenticationv1beta1.TokenReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authenticationv1beta1.SchemeGroupVersion.String(), Kind: "TokenReview"},
		Spec:     authenticationv1beta1.TokenReviewSpec{Token: token, Audiences: audiences},
	}, &answer)
	s := answer.Status
	out := authenticationv1.TokenReviewStatus{Authenticated: s.Authenticated, Audiences: s.Audiences, Error: s.Error,
		User: authenticationv1.UserInfo{Username: s.User.Username, UID: s.User.UID, Groups: s.User.Groups}}
	if s.User.Extra != nil {
		out.User.Extra = make(map[string]authenticationv1.ExtraValue, len(s.User.Extra))
		for k, v := range s.User.Extra {
			out.User.Extra[k] = authenticationv1.ExtraValue(v)
		}
	}
	return out, err
}
