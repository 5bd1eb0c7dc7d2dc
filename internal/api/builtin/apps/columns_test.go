package apps

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells/celltest"
)

func TestTables(t *testing.T) {
	celltest.Run(t, map[string]celltest.Kind{
		"ControllerRevision": celltest.For[appsv1.ControllerRevision](controllerRevisionTable()),
		"DaemonSet":          celltest.For[appsv1.DaemonSet](daemonSetTable()),
		"Deployment":         celltest.For[appsv1.Deployment](deploymentTable()),
		"ReplicaSet":         celltest.For[appsv1.ReplicaSet](replicaSetTable()),
		"StatefulSet":        celltest.For[appsv1.StatefulSet](statefulSetTable()),
	})
}
