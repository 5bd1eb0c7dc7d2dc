package authz

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Attest returns a function that returns an error unless the authorizer lets a user attest to webhooks that it asks them about objects of
// an API group.
func Attest(authorizer Authorizer) func(ctx context.Context, u user.Info, group string) error {
	return func(ctx context.Context, u user.Info, group string) error {
		a := &Attributes{User: u, Verb: "attest", IsResource: true, Group: authenticationv1.GroupName, Version: "*",
			Resource: authenticationv1.AttestationAdmissionReviewAPIGroups, Name: group}
		decision, reason, err := authorizer.Authorize(ctx, a)
		switch {
		case decision == Allow:
			return nil
		case err != nil && reason != "":
			reason = fmt.Sprintf("%v: %s", err, reason)
		case err != nil:
			reason = err.Error()
		}
		return Forbidden(a, reason)
	}
}
