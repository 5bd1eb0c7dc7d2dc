package rbac

import (
	"context"
	"errors"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
)

// ConfirmNoEscalation checks that a user has all the rules, in a namespace or cluster-wide. The error lists the missing
// permissions.
func (x *Index) ConfirmNoEscalation(_ context.Context, u user.Info, namespace string, rules []rbacv1.PolicyRule) error {
	owned, unresolved := x.RulesFor(u, namespace)
	missing := uncovered(owned, rules)
	if len(missing) == 0 {
		return nil
	}
	text := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s",
		u.GetName(), u.GetGroups(), strings.Join(describe(missing), "\n"))
	if unresolved != nil {
		text += fmt.Sprintf("; resolution errors: %v", unresolved)
	}
	return errors.New(text)
}
