package authz

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
)

// seen keeps what it is asked.
type seen struct {
	fixed
	asked *Attributes
}

func (s *seen) Authorize(ctx context.Context, a *Attributes) (Decision, string, error) {
	s.asked = a
	return s.fixed.Authorize(ctx, a)
}

func TestAttest(t *testing.T) {
	u := &user.DefaultInfo{Name: "u"}
	const refused = `admissionReviewAPIGroups.authentication.k8s.io "apps" is forbidden: User "u" cannot attest resource "admissionReviewAPIGroups" in API group "authentication.k8s.io" at the cluster scope`
	for _, c := range []struct {
		answer fixed
		want   string
	}{
		{fixed{decision: Allow}, ""},
		{fixed{decision: NoOpinion}, refused},
		{fixed{decision: Deny, reason: "why"}, refused + ": why"},
		{fixed{decision: NoOpinion, err: errors.New("broken")}, refused + ": broken"},
		{fixed{decision: NoOpinion, reason: "why", err: errors.New("broken")}, refused + ": broken: why"},
	} {
		s := &seen{fixed: c.answer}
		err := Attest(s)(t.Context(), u, "apps")
		if (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%+v: %v, want %q", c.answer, err, c.want)
		}
		want := &Attributes{User: u, Verb: "attest", IsResource: true, Group: "authentication.k8s.io", Version: "*", Resource: "admissionReviewAPIGroups", Name: "apps"}
		if !reflect.DeepEqual(s.asked, want) {
			t.Errorf("asked %+v, want %+v", s.asked, want)
		}
	}
}
