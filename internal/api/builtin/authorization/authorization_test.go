package authorization

import (
	"context"
	"errors"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/rulestest"
	"github.com/kanzen-io/kanzen/internal/engine"
)

// Reviews are answered and never stored.
func TestReviews(t *testing.T) {
	refused := errors.New("refused")
	rs := Resources(Deps{
		SubjectAccess: func(_ context.Context, r *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
			if r.Spec.User == "" {
				return nil, refused
			}
			r.Status.Allowed = true
			return r, nil
		},
	})
	for _, r := range rs {
		if r.Prefix != "" || r.Create == nil {
			t.Errorf("%s: prefix %q", r.Plural, r.Prefix)
		}
		if r.Plural != "subjectaccessreviews" {
			continue
		}
		out, err := r.Create(rulestest.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "jane"}}, allowed, nil)
		if err != nil || !out.(*authorizationv1.SubjectAccessReview).Status.Allowed {
			t.Errorf("answer %+v, %v", out, err)
		}
		if _, err := r.Create(rulestest.Context(), &authorizationv1.SubjectAccessReview{}, allowed, nil); !errors.Is(err, refused) {
			t.Errorf("error %v", err)
		}
	}
}

func allowed(context.Context, engine.Object) error { return nil }
