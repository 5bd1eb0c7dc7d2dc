package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/observe/recorder"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

func explainAccessCommand() *cobra.Command {
	var q accessQuestion
	cmd := &cobra.Command{
		Use:   "explain-access [--as USER] VERB RESOURCE[/SUBRESOURCE] [NAME]",
		Short: "Explain why a user may or may not do something",
		Long: `Shows the rule that allows a user to do something. If no rule allows it, shows
which bindings name the user, what their rules lack, and which other bindings and
roles would allow it.

Without --as it asks about yourself, for which you need no rights. A certificate
or token says in which groups its user is. The server remembers those of users
whom it has seen; name others with --as-group.

  kanzen explain-access list pods -n shop
  kanzen explain-access --as alice get pods -n shop
  kanzen explain-access --as system:serviceaccount:shop:web create pods/exec
  kanzen explain-access --as alice get /metrics`,
		Args: cobra.RangeArgs(2, 3),
	}
	q.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := q.open()
		if err != nil {
			return err
		}
		if err := q.about(cmd.Context(), s, args); err != nil {
			return err
		}
		e, err := q.explain(cmd.Context(), s)
		if err != nil {
			return err
		}
		if q.output == "json" {
			return printJSON(cmd.OutOrStdout(), e)
		}
		printExplanation(cmd.OutOrStdout(), e)
		if !e.Status.Allowed && !e.Status.Denied {
			tell(cmd.OutOrStdout(), "\nThe least that would allow it: kanzen grant%s %s\n", q.subjectFlags(), q.text(args))
		}
		return nil
	}
	return cmd
}

// accessQuestion is whether a user may do something.
type accessQuestion struct {
	asking
	user   string
	groups []string
	all    bool // namespaces

	isSelf bool
	// asGroups are groups, and those that the user has besides; nil: the server knows them.
	asGroups    []string
	resource    *authorizationv1.ResourceAttributes
	nonResource *authorizationv1.NonResourceAttributes
}

func (q *accessQuestion) add(cmd *cobra.Command) {
	q.asking.add(cmd.Flags(), true)
	cmd.Flags().StringVar(&q.user, "as", "", "The user: a name, or system:serviceaccount:NAMESPACE:NAME. (default yourself)")
	cmd.Flags().StringArrayVar(&q.groups, "as-group", nil, "A group of the user; may be given several times. (default the groups with which the server saw the user last; those of service accounts are known)")
	cmd.Flags().BoolVarP(&q.all, "all-namespaces", "A", false, "Ask about all namespaces.")
}

// specialVerbs are verbs that stand for no request.
func specialVerbs() []string {
	return []string{"*", "impersonate", "bind", "escalate", "approve", "sign", "attest", "use", "request-serviceaccounts-token-audience", "proxy"}
}

// about reads what is asked, and who is if nobody is named.
func (q *accessQuestion) about(ctx context.Context, s *asker, args []string) error {
	verb, what := args[0], args[1]
	if q.isSelf = q.user == "" && len(q.groups) == 0; q.isSelf {
		review := authenticationv1.SelfSubjectReview{TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "SelfSubjectReview"}}
		if err := s.ask(ctx, http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews", "", review, &review); err != nil {
			return err
		}
		q.user, q.asGroups = review.Status.UserInfo.Username, review.Status.UserInfo.Groups
	} else if len(q.groups) > 0 {
		q.asGroups = recorder.StandardGroups(q.user, q.groups...)
	}
	if strings.HasPrefix(what, "/") {
		q.nonResource = &authorizationv1.NonResourceAttributes{Verb: verb, Path: what}
		return nil
	}
	name, sub, _ := strings.Cut(what, "/")
	all, err := s.resources(ctx)
	if err != nil {
		return err
	}
	r, err := find(all, name)
	if err != nil {
		return err
	}
	verbs := r.Verbs
	if sub != "" {
		n := slices.IndexFunc(r.Subresources, func(x apidiscoveryv2.APISubresourceDiscovery) bool { return x.Subresource == sub })
		if n < 0 {
			return fmt.Errorf("%s has no subresource %q", r.Resource, sub)
		}
		verbs = r.Subresources[n].Verbs
	}
	if !slices.Contains(verbs, verb) && !slices.Contains(specialVerbs(), verb) {
		return fmt.Errorf("%s has no verb %q; it has %s", what, verb, strings.Join(verbs, ", "))
	}
	q.resource = &authorizationv1.ResourceAttributes{Verb: verb, Group: r.group, Resource: r.Resource, Subresource: sub}
	if r.Scope == "Namespaced" && !q.all {
		q.resource.Namespace = q.namespace
	}
	if len(args) == 3 {
		q.resource.Name = args[2]
	}
	return nil
}

// explain asks the server. Who asks about himself and may not read explanations is told what Kubernetes tells everybody.
func (q *accessQuestion) explain(ctx context.Context, s *asker) (*v1alpha1.AccessExplanation, error) {
	e := &v1alpha1.AccessExplanation{Spec: authorizationv1.SubjectAccessReviewSpec{User: q.user, Groups: q.asGroups, ResourceAttributes: q.resource, NonResourceAttributes: q.nonResource}}
	e.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind("AccessExplanation"))
	var answer v1alpha1.AccessExplanation
	err := s.ask(ctx, http.MethodPost, "/apis/"+v1alpha1.GroupVersion().String()+"/accessexplanations", "", e, &answer)
	e.Status = answer.Status
	var refused *refusedError
	if err == nil || !errors.As(err, &refused) || refused.code != http.StatusNotFound && refused.code != http.StatusForbidden {
		return e, err
	}
	if !q.isSelf {
		if refused.code == http.StatusNotFound {
			return nil, errors.New(s.noRecorder() + ", which is needed for this")
		}
		return nil, err
	}
	review := authorizationv1.SelfSubjectAccessReview{TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: q.resource, NonResourceAttributes: q.nonResource}}
	if err := s.ask(ctx, http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "", review, &review); err != nil {
		return nil, err
	}
	e.Status.Allowed, e.Status.Denied, e.Status.Reason = review.Status.Allowed, review.Status.Denied, review.Status.Reason
	e.Status.Limited = true
	return e, nil
}

// subjectFlags are the flags that name the user of a question, or the groups if there is no user, for a shell.
func (q *accessQuestion) subjectFlags() string {
	if q.user != "" {
		return " --as " + shellWord(q.user)
	}
	flags := ""
	for _, g := range q.groups {
		flags += " --as-group " + shellWord(g)
	}
	return flags
}

// text is what is asked, as it is typed.
func (q *accessQuestion) text(args []string) string {
	words := make([]string, len(args))
	for n, arg := range args {
		words[n] = shellWord(arg)
	}
	text := strings.Join(words, " ")
	switch {
	case q.resource == nil:
	case q.resource.Namespace != "":
		text += " -n " + shellWord(q.resource.Namespace)
	case q.all:
		text += " -A"
	}
	return text
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
	switch {
	case s.Limited:
		tell(w, "  (you may not read explanations, so bindings and roles are not told)\n")
		return
	case s.Seen:
		tell(w, "  with the groups with which the server saw this user last: %s\n", strings.Join(s.Groups, ", "))
	case len(s.Groups) > 0:
		tell(w, "  the server has not seen this user yet, so its groups are not known; taken: %s; name others with --as-group\n", strings.Join(s.Groups, ", "))
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
	would := slices.DeleteFunc(slices.Clone(s.Would), func(b v1alpha1.ConsideredBinding) bool { // those of the system's own parts are nobody's business
		return strings.HasPrefix(b.Name, "system:") || len(b.Subjects) == 0
	})
	if len(would) > 0 {
		tell(w, "\nBindings that would allow it if they named the user:\n")
	}
	for n := range would {
		b := &would[n]
		var names []string
		for _, of := range b.Subjects {
			names = append(names, of.Kind+" "+of.Name)
		}
		tell(w, "  %s, which names %s\n", bindingName(b), strings.Join(names, ", "))
	}
	roles := slices.DeleteFunc(slices.Clone(s.Roles), func(r rbacv1.RoleRef) bool { return strings.HasPrefix(r.Name, "system:") })
	if len(roles) > 0 {
		tell(w, "\nRoles that would allow it if a binding here referred to them:\n")
	}
	for _, r := range roles {
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
