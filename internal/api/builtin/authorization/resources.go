// Package authorization is the API group authorization.k8s.io/v1: reviews of what a user may do. They are answered and
// not stored.
package authorization

import (
	"context"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
)

var v1 = authorizationv1.SchemeGroupVersion

// Deps answers the reviews.
type Deps struct {
	SubjectAccess      func(ctx context.Context, in *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error)
	LocalSubjectAccess func(ctx context.Context, in *authorizationv1.LocalSubjectAccessReview) (*authorizationv1.LocalSubjectAccessReview, error)
	SelfSubjectAccess  func(ctx context.Context, in *authorizationv1.SelfSubjectAccessReview) (*authorizationv1.SelfSubjectAccessReview, error)
	SelfSubjectRules   func(ctx context.Context, in *authorizationv1.SelfSubjectRulesReview) (*authorizationv1.SelfSubjectRulesReview, error)
}

// Resources returns every resource of the group.
func Resources(d Deps) []*engine.Resource {
	return engine.Kinds([]*engine.Resource{
		{
			Plural: "localsubjectaccessreviews", Kind: "LocalSubjectAccessReview",
			Namespaced: true,
			// Reviews are never listed.
			Versions: []*engine.Version{engine.VersionOf[authorizationv1.LocalSubjectAccessReview, metav1.Status](v1, nil)},
			Verbs:    []string{"create"},
			Create:   engine.Answer(d.LocalSubjectAccess),
		},
		{
			Plural: "selfsubjectaccessreviews", Kind: "SelfSubjectAccessReview",
			Versions: []*engine.Version{engine.VersionOf[authorizationv1.SelfSubjectAccessReview, metav1.Status](v1, nil)},
			Verbs:    []string{"create"},
			Create:   engine.Answer(d.SelfSubjectAccess),
		},
		{
			Plural: "selfsubjectrulesreviews", Kind: "SelfSubjectRulesReview",
			Versions: []*engine.Version{engine.VersionOf[authorizationv1.SelfSubjectRulesReview, metav1.Status](v1, nil)},
			Verbs:    []string{"create"},
			Create:   engine.Answer(d.SelfSubjectRules),
		},
		{
			Plural: "subjectaccessreviews", Kind: "SubjectAccessReview",
			Versions: []*engine.Version{engine.VersionOf[authorizationv1.SubjectAccessReview, metav1.Status](v1, nil)},
			Verbs:    []string{"create"},
			Create:   engine.Answer(d.SubjectAccess),
		},
	}...)
}
