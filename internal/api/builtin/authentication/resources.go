// Package authentication is the API group authentication.k8s.io/v1: reviews that identify a user. They are answered and
// not stored.
package authentication

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
)

var v1 = authenticationv1.SchemeGroupVersion

// Deps answers the reviews.
type Deps struct {
	TokenReview       func(ctx context.Context, in *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error)
	SelfSubjectReview func(ctx context.Context, in *authenticationv1.SelfSubjectReview) (*authenticationv1.SelfSubjectReview, error)
}

// Resources returns every resource of the group.
func Resources(d Deps) []*engine.Resource {
	return engine.Kinds([]*engine.Resource{
		{
			Plural: "selfsubjectreviews", Kind: "SelfSubjectReview",
			// Reviews are never listed.
			Versions: []*engine.Version{engine.VersionOf[authenticationv1.SelfSubjectReview, metav1.Status](v1, nil)},
			Verbs:    []string{"create"},
			Create:   engine.Answer(d.SelfSubjectReview),
		},
		{
			Plural: "tokenreviews", Kind: "TokenReview",
			Versions: []*engine.Version{engine.VersionOf[authenticationv1.TokenReview, metav1.Status](v1, nil)},
			Verbs:    []string{"create"},
			Create:   engine.Answer(d.TokenReview),
		},
	}...)
}
