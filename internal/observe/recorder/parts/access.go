package parts

import (
	"context"
	"fmt"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/access/authz/modes"
	"github.com/kanzen-io/kanzen/internal/access/authz/rbac"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// Explain asks the authorizers for their decision, and RBAC for its reasons.
func Explain(ctx context.Context, a *modes.Set, at *authz.Attributes) (v1alpha1.AccessExplanationStatus, error) {
	decision, reason, err := a.Authorize(ctx, at)
	if err != nil && decision != authz.Allow {
		reason = fmt.Sprint(reason, " ", err)
	}
	s := v1alpha1.AccessExplanationStatus{Allowed: decision == authz.Allow, Denied: decision == authz.Deny, Reason: reason}
	if !a.Uses("RBAC") {
		return s, nil
	}
	e := a.RBAC.Index.Explain(at)
	s.Bindings, s.Would, s.Roles = considered(e.Considered), considered(e.Would), e.Roles
	return s, nil
}

func considered(all []rbac.Considered) []v1alpha1.ConsideredBinding {
	out := make([]v1alpha1.ConsideredBinding, 0, len(all))
	for n := range all {
		c := &all[n]
		kind := "ClusterRoleBinding"
		if c.Namespace != "" {
			kind = "RoleBinding"
		}
		out = append(out, v1alpha1.ConsideredBinding{Kind: kind, Namespace: c.Namespace, Name: c.Name, Role: c.Role, Subjects: c.Subjects,
			Allows: c.Allows, Rule: c.Rule, Missing: c.Missing})
	}
	return out
}
