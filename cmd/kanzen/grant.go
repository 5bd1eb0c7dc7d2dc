package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
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
		if err := q.about(cmd.Context(), s, args); err != nil {
			return err
		}
		if err := q.grantable(); err != nil {
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
		g := q.grant(subjectsOf(q.user, q.groups))
		if err := g.print(out, q.output); err != nil || !yes {
			if err == nil && q.output == "" {
				tell(out, "# nothing was created; --yes creates both\n")
			}
			return err
		}
		return g.create(cmd.Context(), s, cmd.ErrOrStderr())
	}
	return cmd
}

// grantable returns why no role can say what is asked.
func (q *accessQuestion) grantable() error {
	r := q.resource
	if r != nil && r.Name != "" && r.Subresource == "" && (r.Verb == "create" || r.Verb == "deletecollection") {
		return fmt.Errorf("%s cannot be granted for one name: requests for it are authorized without one", r.Verb)
	}
	return nil
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
	// AggregationRule is nil in roles that are made here: rules of others would be added.
	AggregationRule *rbacv1.AggregationRule `json:"aggregationRule,omitempty"`
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
	rule, parts, namespace := rbacv1.PolicyRule{}, append([]string{"grant"}, namesOf(subjects)...), ""
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
	kind, meta := "Cluster", metav1.ObjectMeta{Name: strings.NewReplacer("/", ":", "%", ":").Replace(strings.Join(parts, ":")), Namespace: namespace}
	if namespace != "" {
		kind = ""
	}
	typed := func(of string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind + of}
	}
	return &grant{role{TypeMeta: typed("Role"), ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}},
		binding{typed("RoleBinding"), meta, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind + "Role", Name: meta.Name}, subjects}}
}

// namesOf are the parts of a role's name that say whom it is for. A group is not a user of the same name.
func namesOf(subjects []rbacv1.Subject) (names []string) {
	for _, of := range subjects {
		switch of.Kind {
		case rbacv1.ServiceAccountKind:
			names = append(names, of.Namespace)
		case rbacv1.GroupKind:
			names = append(names, "group")
		}
		names = append(names, of.Name)
	}
	return names
}

func (g *grant) print(w io.Writer, output string) error {
	if output == "json" {
		return printJSON(w, map[string]any{"apiVersion": "v1", "kind": "List", "items": []any{g.role, g.binding}})
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

// create creates the role and the binding, and says which. What is there by the same name must say the same; a role that was created
// here goes if the binding is refused.
func (g *grant) create(ctx context.Context, s *asker, out io.Writer) error {
	base := "/apis/" + rbacv1.SchemeGroupVersion.String() + "/"
	if g.role.Namespace != "" {
		base += "namespaces/" + url.PathEscape(g.role.Namespace) + "/"
	}
	roles := base + strings.ToLower(g.role.Kind) + "s"
	isNew, err := createOnce(ctx, s, out, roles, &g.role.TypeMeta, g.role.Name, &g.role, func(there *role) bool {
		return there.AggregationRule == nil && reflect.DeepEqual(there.Rules, g.role.Rules)
	})
	if err != nil {
		return err
	}
	_, err = createOnce(ctx, s, out, base+strings.ToLower(g.binding.Kind)+"s", &g.binding.TypeMeta, g.binding.Name, &g.binding, func(there *binding) bool {
		return there.RoleRef == g.binding.RoleRef && slices.Equal(there.Subjects, g.binding.Subjects)
	})
	if err == nil || !isNew {
		return err
	}
	var ignored struct{}
	if failed := s.ask(ctx, http.MethodDelete, roles+"/"+url.PathEscape(g.role.Name), "", nil, &ignored); failed != nil {
		return errors.Join(err, failed)
	}
	tell(out, "removed %s %s again\n", g.role.Kind, g.role.Name)
	return err
}

// createOnce creates an object below a path, unless there is one of its name that says the same; then it is not new.
func createOnce[T any](ctx context.Context, s *asker, out io.Writer, path string, of *metav1.TypeMeta, name string, obj *T, same func(there *T) bool) (isNew bool, err error) {
	var ignored struct{}
	err = s.ask(ctx, http.MethodPost, path, "", obj, &ignored)
	var refused *refusedError
	if !errors.As(err, &refused) || refused.code != http.StatusConflict {
		if err == nil {
			tell(out, "created %s %s\n", of.Kind, name)
		}
		return err == nil, err
	}
	var there T
	if err := s.get(ctx, path+"/"+url.PathEscape(name), &there); err != nil {
		return false, err
	}
	if !same(&there) {
		return false, fmt.Errorf("there is a %s %s already that says something else", of.Kind, name)
	}
	tell(out, "%s %s is there already\n", of.Kind, name)
	return false, nil
}
