package authn

import (
	"context"
	"errors"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/request"
)

// ReviewToken serves TokenReviews: it authenticates the token in the review.
func (t Tokens) ReviewToken(ctx context.Context, in *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error) {
	if in.Spec.Token == "" {
		return nil, apierrors.NewBadRequest("token is required for TokenReview in authentication")
	}
	audiences := in.Spec.Audiences
	if len(audiences) == 0 {
		audiences = t.Audiences
	}
	out := in.DeepCopy()
	out.Status = authenticationv1.TokenReviewStatus{}
	response, err := t.AuthenticateToken(ctx, in.Spec.Token, audiences)
	switch {
	case err != nil:
		out.Status.Error = err.Error()
	case response == nil:
		out.Status.Error = errInvalidToken.Error()
	case len(audiences) > 0 && len(Intersect(audiences, response.Audiences)) == 0:
		return nil, apierrors.NewInternalError(errors.New("the authenticator did not say for which audiences the token is good"))
	default:
		out.Status.Authenticated = true
		out.Status.User = userInfo(withAuthenticatedGroup(response.User))
		out.Status.Audiences = response.Audiences
	}
	return out, nil
}

// ReviewSelf serves SelfSubjectReviews: it returns the client's own user.
func ReviewSelf(clk clock.PassiveClock) func(context.Context, *authenticationv1.SelfSubjectReview) (*authenticationv1.SelfSubjectReview, error) {
	return func(ctx context.Context, _ *authenticationv1.SelfSubjectReview) (*authenticationv1.SelfSubjectReview, error) {
		u := request.UserFrom(ctx)
		if u == nil {
			return nil, apierrors.NewBadRequest("no user present on request")
		}
		return &authenticationv1.SelfSubjectReview{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(clk.Now())},
			Status:     authenticationv1.SelfSubjectReviewStatus{UserInfo: userInfo(u)},
		}, nil
	}
}

func userInfo(u user.Info) authenticationv1.UserInfo {
	info := authenticationv1.UserInfo{Username: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups()}
	if extra := u.GetExtra(); len(extra) > 0 {
		info.Extra = make(map[string]authenticationv1.ExtraValue, len(extra))
		for key, values := range extra {
			info.Extra[key] = values
		}
	}
	return info
}
