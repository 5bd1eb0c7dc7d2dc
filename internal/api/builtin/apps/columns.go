package apps

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells"
	"github.com/kanzen-io/kanzen/internal/engine"
)

func replicas(p *int32) int64 {
	if p == nil {
		return 0
	}
	return int64(*p)
}

func deploymentTable() *engine.Table {
	status := appsv1.DeploymentStatus{}.SwaggerDoc()
	return engine.TableOf(deploymentRow, cells.Workload(appsv1.DeploymentSpec{}.SwaggerDoc()["selector"],
		cells.Name(),
		cells.String("Ready", "Ready pods out of those desired."),
		cells.String("Up-to-date", status["updatedReplicas"]),
		cells.String("Available", status["availableReplicas"]),
		cells.Age(),
	)...)
}

func deploymentRow(d *appsv1.Deployment) []any {
	names, images := cells.Containers(d.Spec.Template.Spec.Containers)
	selector := "<invalid>"
	if s, err := metav1.LabelSelectorAsSelector(d.Spec.Selector); err == nil {
		selector = s.String()
	}
	return []any{
		d.Name, fmt.Sprintf("%d/%d", d.Status.ReadyReplicas, replicas(d.Spec.Replicas)),
		int64(d.Status.UpdatedReplicas), int64(d.Status.AvailableReplicas),
		cells.Since(d.CreationTimestamp), names, images, selector,
	}
}

func replicaSetTable() *engine.Table {
	spec, status := appsv1.ReplicaSetSpec{}.SwaggerDoc(), appsv1.ReplicaSetStatus{}.SwaggerDoc()
	return engine.TableOf(replicaSetRow, cells.Workload(spec["selector"],
		cells.Name(),
		cells.Integer("Desired", spec["replicas"]),
		cells.Integer("Current", status["replicas"]),
		cells.Integer("Ready", status["readyReplicas"]),
		cells.Age(),
	)...)
}

func replicaSetRow(rs *appsv1.ReplicaSet) []any {
	names, images := cells.Containers(rs.Spec.Template.Spec.Containers)
	return []any{
		rs.Name, replicas(rs.Spec.Replicas), int64(rs.Status.Replicas), int64(rs.Status.ReadyReplicas),
		cells.Since(rs.CreationTimestamp), names, images, metav1.FormatLabelSelector(rs.Spec.Selector),
	}
}

func daemonSetTable() *engine.Table {
	status := appsv1.DaemonSetStatus{}.SwaggerDoc()
	return engine.TableOf(daemonSetRow, cells.Workload(appsv1.DaemonSetSpec{}.SwaggerDoc()["selector"],
		cells.Name(),
		cells.Integer("Desired", status["desiredNumberScheduled"]),
		cells.Integer("Current", status["currentNumberScheduled"]),
		cells.Integer("Ready", status["numberReady"]),
		cells.Integer("Up-to-date", status["updatedNumberScheduled"]),
		cells.Integer("Available", status["numberAvailable"]),
		cells.String("Node Selector", corev1.PodSpec{}.SwaggerDoc()["nodeSelector"]),
		cells.Age(),
	)...)
}

func daemonSetRow(ds *appsv1.DaemonSet) []any {
	names, images := cells.Containers(ds.Spec.Template.Spec.Containers)
	s := &ds.Status
	return []any{
		ds.Name, int64(s.DesiredNumberScheduled), int64(s.CurrentNumberScheduled), int64(s.NumberReady),
		int64(s.UpdatedNumberScheduled), int64(s.NumberAvailable), labels.FormatLabels(ds.Spec.Template.Spec.NodeSelector),
		cells.Since(ds.CreationTimestamp), names, images, metav1.FormatLabelSelector(ds.Spec.Selector),
	}
}

func statefulSetTable() *engine.Table {
	return engine.TableOf(statefulSetRow, append([]cells.Column{
		cells.Name(),
		cells.String("Ready", "Ready pods out of those desired."),
		cells.Age(),
	}, cells.Images()...)...)
}

func statefulSetRow(sts *appsv1.StatefulSet) []any {
	names, images := cells.Containers(sts.Spec.Template.Spec.Containers)
	return []any{
		sts.Name, fmt.Sprintf("%d/%d", sts.Status.ReadyReplicas, replicas(sts.Spec.Replicas)),
		cells.Since(sts.CreationTimestamp), names, images,
	}
}

func controllerRevisionTable() *engine.Table {
	return engine.TableOf(controllerRevisionRow,
		cells.Name(),
		cells.String("Controller", "The object that this is a revision of."),
		cells.String("Revision", appsv1.ControllerRevision{}.SwaggerDoc()["revision"]),
		cells.Age(),
	)
}

func controllerRevisionRow(cr *appsv1.ControllerRevision) []any {
	controller := cells.None
	if ref := metav1.GetControllerOf(cr); ref != nil {
		gk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
		controller = strings.ToLower(gk.String()) + "/" + ref.Name
	}
	return []any{cr.Name, controller, cr.Revision, cells.Since(cr.CreationTimestamp)}
}
