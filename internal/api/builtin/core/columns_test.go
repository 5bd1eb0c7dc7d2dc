package core

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells/celltest"
)

func TestTables(t *testing.T) {
	celltest.Run(t, map[string]celltest.Kind{
		"ComponentStatus": celltest.For[corev1.ComponentStatus](componentStatusTable()),
		"ConfigMap":       celltest.For[corev1.ConfigMap](configMapTable()),
		//lint:ignore SA1019 Endpoints are deprecated for their users, and still served to them.
		"Endpoints":             celltest.For[corev1.Endpoints](endpointsTable()),
		"Event":                 celltest.For[corev1.Event](eventTable()),
		"Namespace":             celltest.For[corev1.Namespace](namespaceTable()),
		"Node":                  celltest.For[corev1.Node](nodeTable()),
		"PersistentVolume":      celltest.For[corev1.PersistentVolume](persistentVolumeTable()),
		"PersistentVolumeClaim": celltest.For[corev1.PersistentVolumeClaim](persistentVolumeClaimTable()),
		"Pod":                   celltest.For[corev1.Pod](podTable()),
		"PodTemplate":           celltest.For[corev1.PodTemplate](podTemplateTable()),
		"ReplicationController": celltest.For[corev1.ReplicationController](replicationControllerTable()),
		"ResourceQuota":         celltest.For[corev1.ResourceQuota](resourceQuotaTable()),
		"Secret":                celltest.For[corev1.Secret](secretTable()),
		"Service":               celltest.For[corev1.Service](serviceTable()),
		"ServiceAccount":        celltest.For[corev1.ServiceAccount](serviceAccountTable()),
	})
}
