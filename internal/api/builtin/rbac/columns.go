package rbac

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells"
	"github.com/kanzen-io/kanzen/internal/engine"
)

func roleBindingTable() *engine.Table {
	return engine.TableOf(roleBindingRow, bindingColumns(rbacv1.RoleBinding{}.SwaggerDoc()["roleRef"])...)
}

func roleBindingRow(b *rbacv1.RoleBinding) []any {
	return append([]any{b.Name, b.RoleRef.Kind + "/" + b.RoleRef.Name, cells.Since(b.CreationTimestamp)},
		subjectCells(b.Subjects)...)
}

func clusterRoleBindingTable() *engine.Table {
	return engine.TableOf(clusterRoleBindingRow, bindingColumns(rbacv1.ClusterRoleBinding{}.SwaggerDoc()["roleRef"])...)
}

func clusterRoleBindingRow(b *rbacv1.ClusterRoleBinding) []any {
	return append([]any{b.Name, b.RoleRef.Kind + "/" + b.RoleRef.Name, cells.Since(b.CreationTimestamp)},
		subjectCells(b.Subjects)...)
}

func bindingColumns(roleRef string) []cells.Column {
	return []cells.Column{
		cells.Name(),
		cells.String("Role", roleRef),
		cells.Age(),
		cells.Wide(cells.String("Users", "Users that are bound to the role.")),
		cells.Wide(cells.String("Groups", "Groups that are bound to the role.")),
		cells.Wide(cells.String("ServiceAccounts", "Service accounts that are bound to the role.")),
	}
}

func subjectCells(subjects []rbacv1.Subject) []any {
	var users, groups, accounts []string
	for _, s := range subjects {
		switch s.Kind {
		case rbacv1.UserKind:
			users = append(users, s.Name)
		case rbacv1.GroupKind:
			groups = append(groups, s.Name)
		case rbacv1.ServiceAccountKind:
			accounts = append(accounts, s.Namespace+"/"+s.Name)
		}
	}
	return []any{strings.Join(users, ", "), strings.Join(groups, ", "), strings.Join(accounts, ", ")}
}
