package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func grantCommand() *cobra.Command {
	var q accessQuestion
	yes := false
	cmd := &cobra.Command{
		Use:   "grant --as USER VERB RESOURCE[/SUBRESOURCE] [NAME]",
		Short: "Show, and create, the least role and binding that allow a user to do something",
		Long: `Shows the least role that allows a user to do something, and the binding of it to
the user. With --yes it creates both, with your own rights: the server refuses to
let you grant what you may not do yourself. If it is allowed already, says by what
and creates nothing. With --as-group and without --as, the group is granted it.

  kanzen grant --as alice list pods -n shop
  kanzen grant --as system:serviceaccount:shop:web get configmaps settings -n shop --yes
  kanzen grant --as-group dev get nodes`,
		Args: cobra.RangeArgs(2, 3),
	}
	q.add(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "Create what is shown.")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if q.user == "" && len(q.groups) == 0 {
			return errors.New("--as: name the user, or a group with --as-group")
		}
		s, err := q.open()
		if err != nil {
			return err
		}
		subjects := subjectsOf(q.user, q.groups)
		if err := q.about(cmd.Context(), s, args); err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		if e, err := q.explain(cmd.Context(), s); err != nil {
			tell(cmd.ErrOrStderr(), "Note: whether it is allowed already is not known: %s\n", err)
		} else if e.Status.Allowed {
			printExplanation(out, e)
			tell(out, "\nNothing needs to be granted.\n")
			return nil
		}
		g := q.grant(subjects)
		if err := g.print(out, q.output); err != nil || !yes {
			if err == nil && q.output == "" {
				tell(out, "# nothing was created; --yes creates both\n")
			}
			return err
		}
		if err := g.create(cmd.Context(), s); err != nil {
			return err
		}
		tell(cmd.ErrOrStderr(), "created %s %s and %s %s\n", g.role.Kind, g.role.Name, g.binding.Kind, g.binding.Name)
		return nil
	}
	return cmd
}

// subjectsOf returns whom a binding names: the user, or the groups if there is no user.
func subjectsOf(user string, groups []string) (out []rbacv1.Subject) {
	if rest, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		if namespace, name, ok := strings.Cut(rest, ":"); ok {
			return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}}
		}
	}
	if user != "" {
		return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	}
	for _, g := range groups {
		out = append(out, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: g})
	}
	return out
}

// role has the fields of Role and ClusterRole.
type role struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Rules             []rbacv1.PolicyRule `json:"rules"`
}

// binding has the fields of RoleBinding and ClusterRoleBinding.
type binding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	RoleRef           rbacv1.RoleRef   `json:"roleRef"`
	Subjects          []rbacv1.Subject `json:"subjects"`
}

// grant is a role and the binding of it.
type grant struct {
	role    role
	binding binding
}

// grant makes the least role that allows what is asked.
func (q *accessQuestion) grant(subjects []rbacv1.Subject) *grant {
	rule, parts, namespace := rbacv1.PolicyRule{}, []string{"grant", subjects[0].Name}, ""
	if n := q.nonResource; n != nil {
		rule.Verbs, rule.NonResourceURLs = []string{n.Verb}, []string{n.Path}
		parts = append(parts, n.Verb, strings.Trim(n.Path, "/"))
	} else {
		r := q.resource
		what := r.Resource
		if r.Subresource != "" {
			what += "/" + r.Subresource
		}
		rule = rbacv1.PolicyRule{Verbs: []string{r.Verb}, APIGroups: []string{r.Group}, Resources: []string{what}}
		parts, namespace = append(parts, r.Verb, what), r.Namespace
		if r.Group != "" {
			parts[len(parts)-1] += "." + r.Group
		}
		if r.Name != "" {
			rule.ResourceNames = []string{r.Name}
			parts = append(parts, r.Name)
		}
	}
	if subjects[0].Namespace != "" {
		parts[1] = subjects[0].Namespace + ":" + parts[1]
	}
	kind, meta := "Cluster", metav1.ObjectMeta{Name: strings.NewReplacer("/", ":", "%", ":").Replace(strings.Join(parts, ":")), Namespace: namespace}
	if namespace != "" {
		kind = ""
	}
	typed := func(of string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind + of}
	}
	return &grant{role{typed("Role"), meta, []rbacv1.PolicyRule{rule}},
		binding{typed("RoleBinding"), meta, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind + "Role", Name: meta.Name}, subjects}}
}

func (g *grant) print(w io.Writer, output string) error {
	if output == "json" {
		return printJSON(w, []any{g.role, g.binding})
	}
	for _, obj := range []any{g.role, g.binding} {
		text, err := yaml.Marshal(obj)
		if err != nil {
			return err
		}
		tell(w, "---\n")
		for line := range strings.Lines(strings.ReplaceAll(string(text), "  creationTimestamp: null\n", "")) {
			tell(w, "%s\n", strings.TrimSuffix(line, "\n"))
		}
	}
	return nil
}

// create creates the role and the binding. A role of the same name that says the same will do; one that was created here goes if the
// binding is refused.
func (g *grant) create(ctx context.Context, s *asker) error {
	base := "/apis/" + rbacv1.SchemeGroupVersion.String() + "/"
	if g.role.Namespace != "" {
		base += "namespaces/" + g.role.Namespace + "/"
	}
	made := func(path string, obj any) (bool, error) {
		var ignored struct{}
		err := s.ask(ctx, http.MethodPost, base+path, "", obj, &ignored)
		var refused *refusedError
		if errors.As(err, &refused) && refused.code == http.StatusConflict {
			return false, nil
		}
		return err == nil, err
	}
	roles, bindings := strings.ToLower(g.role.Kind)+"s", strings.ToLower(g.binding.Kind)+"s"
	isNew, err := made(roles, g.role)
	if err != nil {
		return err
	}
	if !isNew {
		var there role
		if err := s.get(ctx, base+roles+"/"+g.role.Name, &there); err != nil {
			return err
		}
		if !reflect.DeepEqual(there.Rules, g.role.Rules) {
			return fmt.Errorf("there is a %s %s already that says something else", g.role.Kind, g.role.Name)
		}
	}
	if _, err := made(bindings, g.binding); err != nil {
		if isNew {
			var ignored struct{}
			err = errors.Join(err, s.ask(ctx, http.MethodDelete, base+roles+"/"+g.role.Name, "", nil, &ignored))
		}
		return err
	}
	return nil
}
