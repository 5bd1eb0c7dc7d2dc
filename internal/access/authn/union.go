package authn

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/request"
)

// union tries each authenticator until one finds the user. It returns errors only if none does.
type union []Authenticator

func (u union) Authenticate(r *http.Request) (user.Info, bool, error) {
	var errs []error
	for _, a := range u {
		who, ok, err := a.Authenticate(r)
		if err != nil {
			errs = append(errs, err)
		} else if ok {
			return who, true, nil
		}
	}
	return nil, false, errors.Join(errs...)
}

// Tokens tries each authenticator until one finds the user of the token. It returns errors only if none does.
type Tokens struct {
	Authenticators []TokenAuthenticator
	// Audiences are the API server's own: a token for one of them is valid for requests to it.
	Audiences []string
}

// AuthenticateToken returns the user of a token that is valid for one of the audiences.
func (t Tokens) AuthenticateToken(ctx context.Context, token string, audiences []string) (*Response, error) {
	var errs []error
	for _, a := range t.Authenticators {
		response, err := a.AuthenticateToken(ctx, token, audiences)
		if err != nil {
			errs = append(errs, err)
		} else if response != nil {
			return response, nil
		}
	}
	return nil, errors.Join(errs...)
}

var errInvalidToken = errors.New("invalid bearer token")

// forRequest returns the user of a token that came with a request to this server.
func (t Tokens) forRequest(ctx context.Context, token string) (user.Info, bool, error) {
	response, err := t.AuthenticateToken(ctx, token, t.Audiences)
	if err != nil {
		return nil, false, err
	}
	if response == nil {
		return nil, false, errInvalidToken
	}
	if len(t.Audiences) > 0 && len(response.Audiences) > 0 && len(Intersect(t.Audiences, response.Audiences)) == 0 {
		return nil, false, errors.New("the token is for other audiences")
	}
	request.SetCredential(ctx, response.Valid)
	return response.User, true, nil
}

// Intersect returns the strings of a that are in b.
func Intersect(a, b []string) []string {
	var both []string
	for _, s := range a {
		if slices.Contains(b, s) {
			both = append(both, s)
		}
	}
	return both
}

// ForAudiences adapts an authenticator without audiences: its tokens are valid for the given ones, those of the API
// server.
func ForAudiences(audiences []string, find func(ctx context.Context, token string) (user.Info, error)) TokenAuthenticator {
	return &anyAudience{audiences: audiences, find: find}
}

type anyAudience struct {
	audiences []string
	find      func(ctx context.Context, token string) (user.Info, error)
}

func (a *anyAudience) AuthenticateToken(ctx context.Context, token string, audiences []string) (*Response, error) {
	good := a.audiences
	if len(audiences) > 0 {
		if good = Intersect(a.audiences, audiences); len(good) == 0 {
			return nil, nil
		}
	}
	u, err := a.find(ctx, token)
	if u == nil || err != nil {
		return nil, err
	}
	return &Response{User: u, Audiences: good}, nil
}
