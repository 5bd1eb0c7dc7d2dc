package rbac

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells/celltest"
)

func TestTables(t *testing.T) {
	celltest.Run(t, map[string]celltest.Kind{
		"ClusterRoleBinding": celltest.For[rbacv1.ClusterRoleBinding](clusterRoleBindingTable()),
		"RoleBinding":        celltest.For[rbacv1.RoleBinding](roleBindingTable()),
	})
}
