package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/kanzen-io/kanzen/internal/recorder/v1alpha1"
)

func explainAccessCommand() *cobra.Command {
	var a asking
	var user string
	var groups []string
	cmd := &cobra.Command{
		Use:   "explain-access --as USER VERB RESOURCE[/SUBRESOURCE] [NAME]",
		Short: "Explain why a user may or may not do something",
		Long: `Shows the rule that allows a user to do something. If no rule allows it, shows
which bindings name the user, what their rules lack, and which other bindings and
roles would allow it.

  kanzen explain-access --as alice get pods -n shop
  kanzen explain-access --as system:serviceaccount:shop:web create pods/exec
  kanzen explain-access --as alice get /metrics`,
		Args: cobra.RangeArgs(2, 3),
	}
	a.add(cmd.Flags(), true)
	cmd.Flags().StringVar(&user, "as", "", "The user: a name, or system:serviceaccount:NAMESPACE:NAME.")
	cmd.Flags().StringSliceVar(&groups, "as-group", nil, "A group of the user. (the groups of service accounts are known)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if user == "" && len(groups) == 0 {
			return errors.New("--as: name the user")
		}
		s, err := a.open()
		if err != nil {
			return err
		}
		e := v1alpha1.AccessExplanation{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, Groups: groupsOf(user, groups)}}
		e.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind("AccessExplanation"))
		verb, what := args[0], args[1]
		if strings.HasPrefix(what, "/") {
			e.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Verb: verb, Path: what}
		} else {
			resource, sub, _ := strings.Cut(what, "/")
			all, err := s.resources(cmd.Context())
			if err != nil {
				return err
			}
			r, err := find(all, resource)
			if err != nil {
				return err
			}
			at := &authorizationv1.ResourceAttributes{Verb: verb, Group: r.group, Resource: r.Resource, Subresource: sub}
			if r.Scope == "Namespaced" {
				at.Namespace = a.namespace
			}
			if len(args) == 3 {
				at.Name = args[2]
			}
			e.Spec.ResourceAttributes = at
		}
		if err := s.ask(cmd.Context(), http.MethodPost, "/apis/"+v1alpha1.GroupVersion().String()+"/accessexplanations", "", e, &e); err != nil {
			var refused *refusedError
			if errors.As(err, &refused) && refused.code == http.StatusNotFound {
				return errors.New("the server has no flight recorder (--flight-recorder-memory), which is needed for this")
			}
			return err
		}
		if a.output == "json" {
			return printJSON(cmd.OutOrStdout(), e)
		}
		printExplanation(cmd.OutOrStdout(), &e)
		return nil
	}
	return cmd
}

// groupsOf adds the groups that every authenticated user, or service account, has.
func groupsOf(user string, groups []string) []string {
	if rest, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		namespace, _, _ := strings.Cut(rest, ":")
		groups = append(groups, "system:serviceaccounts", "system:serviceaccounts:"+namespace)
	}
	if user == "system:anonymous" {
		return append(groups, "system:unauthenticated")
	}
	return append(groups, "system:authenticated")
}

func printExplanation(w io.Writer, e *v1alpha1.AccessExplanation) {
	s := &e.Status
	what := ""
	if at := e.Spec.ResourceAttributes; at != nil {
		what = at.Verb + " " + at.Resource
		if at.Subresource != "" {
			what += "/" + at.Subresource
		}
		if at.Name != "" {
			what += " " + at.Name
		}
		if at.Namespace != "" {
			what += " in namespace " + at.Namespace
		}
	} else {
		what = e.Spec.NonResourceAttributes.Verb + " " + e.Spec.NonResourceAttributes.Path
	}
	may := "may not"
	if s.Allowed {
		may = "may"
	}
	tell(w, "%s %s %s\n", e.Spec.User, may, what)
	if s.Reason != "" {
		tell(w, "  %s\n", s.Reason)
	}
	if len(s.Bindings) > 0 {
		tell(w, "\nBindings that name the user or one of its groups:\n")
	} else if !s.Allowed {
		tell(w, "\nNo binding here names the user or one of its groups.\n")
	}
	for n := range s.Bindings {
		b := &s.Bindings[n]
		if b.Allows {
			tell(w, "  %s: allows, by %s\n", bindingName(b), ruleText(b.Rule))
			continue
		}
		tell(w, "  %s: %s\n", bindingName(b), lacking(b))
	}
	if s.Allowed {
		return
	}
	if len(s.Would) > 0 {
		tell(w, "\nBindings that would allow it if they named the user:\n")
	}
	for n := range s.Would {
		b := &s.Would[n]
		var names []string
		for _, of := range b.Subjects {
			names = append(names, of.Kind+" "+of.Name)
		}
		tell(w, "  %s, which names %s\n", bindingName(b), strings.Join(names, ", "))
	}
	if len(s.Roles) > 0 {
		tell(w, "\nRoles that would allow it if a binding here referred to them:\n")
	}
	for _, r := range s.Roles {
		tell(w, "  %s %s\n", r.Kind, r.Name)
	}
}

func bindingName(b *v1alpha1.ConsideredBinding) string {
	name := b.Name
	if b.Namespace != "" {
		name = b.Namespace + "/" + name
	}
	return fmt.Sprintf("%s %s (%s %s)", b.Kind, name, b.Role.Kind, b.Role.Name)
}

func lacking(b *v1alpha1.ConsideredBinding) string {
	if b.Rule == nil {
		if len(b.Missing) > 0 && b.Missing[0] == "role" {
			return "its role does not exist"
		}
		return "its role has no rule for such requests"
	}
	return fmt.Sprintf("the nearest rule (%s) lacks the %s", ruleText(b.Rule), strings.Join(b.Missing, " and the "))
}

// ruleText writes a rule in a line.
func ruleText(r *rbacv1.PolicyRule) string {
	if r == nil {
		return "a rule"
	}
	of := append(r.Resources, r.NonResourceURLs...)
	text := strings.Join(r.Verbs, ",") + " of " + strings.Join(of, ",")
	if len(r.APIGroups) > 0 && (len(r.APIGroups) > 1 || r.APIGroups[0] != "") {
		text += " in " + strings.Join(r.APIGroups, ",")
	}
	if len(r.ResourceNames) > 0 {
		text += " named " + strings.Join(r.ResourceNames, ",")
	}
	return text
}
