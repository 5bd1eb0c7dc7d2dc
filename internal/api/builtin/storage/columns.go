package storage

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells"
	"github.com/kanzen-io/kanzen/internal/engine"
)

func storageClassTable() *engine.Table {
	doc := storagev1.StorageClass{}.SwaggerDoc()
	return engine.TableOf(storageClassRow,
		cells.Name(),
		cells.String("Provisioner", doc["provisioner"]),
		cells.String("ReclaimPolicy", doc["reclaimPolicy"]),
		cells.String("VolumeBindingMode", doc["volumeBindingMode"]),
		cells.String("AllowVolumeExpansion", doc["allowVolumeExpansion"]),
		cells.Age(),
	)
}

func storageClassRow(c *storagev1.StorageClass) []any {
	name := c.Name
	if c.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" ||
		c.Annotations["storageclass.beta.kubernetes.io/is-default-class"] == "true" {
		name += " (default)"
	}
	return []any{
		name, c.Provisioner,
		cells.Deref(c.ReclaimPolicy, string(corev1.PersistentVolumeReclaimDelete)),
		cells.Deref(c.VolumeBindingMode, string(storagev1.VolumeBindingImmediate)),
		cells.True(c.AllowVolumeExpansion), cells.Since(c.CreationTimestamp),
	}
}

func volumeAttributesClassTable() *engine.Table {
	return engine.TableOf(volumeAttributesClassRow,
		cells.Name(),
		cells.String("DriverName", storagev1.VolumeAttributesClass{}.SwaggerDoc()["driverName"]),
		cells.Age(),
	)
}

func volumeAttributesClassRow(c *storagev1.VolumeAttributesClass) []any {
	return []any{c.Name, c.DriverName, cells.Since(c.CreationTimestamp)}
}

func volumeAttachmentTable() *engine.Table {
	spec := storagev1.VolumeAttachmentSpec{}.SwaggerDoc()
	attacher := cells.String("Attacher", spec["attacher"])
	attacher.Format = "name"
	return engine.TableOf(volumeAttachmentRow,
		cells.Name(),
		attacher,
		cells.String("PV", storagev1.VolumeAttachmentSource{}.SwaggerDoc()["persistentVolumeName"]),
		cells.String("Node", spec["nodeName"]),
		cells.Boolean("Attached", storagev1.VolumeAttachmentStatus{}.SwaggerDoc()["attached"]),
		cells.Age(),
	)
}

func volumeAttachmentRow(a *storagev1.VolumeAttachment) []any {
	return []any{
		a.Name, a.Spec.Attacher, cells.Deref(a.Spec.Source.PersistentVolumeName, ""), a.Spec.NodeName,
		a.Status.Attached, cells.Since(a.CreationTimestamp),
	}
}

func csiNodeTable() *engine.Table {
	return engine.TableOf(csiNodeRow,
		cells.Name(),
		cells.Integer("Drivers", "How many CSI drivers are registered on the node."),
		cells.Age(),
	)
}

func csiNodeRow(n *storagev1.CSINode) []any {
	return []any{n.Name, int64(len(n.Spec.Drivers)), cells.Since(n.CreationTimestamp)}
}

func csiDriverTable() *engine.Table {
	spec := storagev1.CSIDriverSpec{}.SwaggerDoc()
	return engine.TableOf(csiDriverRow,
		cells.Name(),
		cells.Boolean("AttachRequired", spec["attachRequired"]),
		cells.Boolean("PodInfoOnMount", spec["podInfoOnMount"]),
		cells.Boolean("StorageCapacity", spec["storageCapacity"]),
		cells.String("TokenRequests", spec["tokenRequests"]),
		cells.Boolean("RequiresRepublish", spec["requiresRepublish"]),
		cells.String("Modes", spec["volumeLifecycleModes"]),
		cells.Age(),
	)
}

func csiDriverRow(d *storagev1.CSIDriver) []any {
	modes := make([]string, len(d.Spec.VolumeLifecycleModes))
	for i, m := range d.Spec.VolumeLifecycleModes {
		modes[i] = string(m)
	}
	tokens := cells.Unset
	if d.Spec.TokenRequests != nil {
		audiences := make([]string, len(d.Spec.TokenRequests))
		for i, t := range d.Spec.TokenRequests {
			audiences[i] = t.Audience
		}
		tokens = strings.Join(audiences, ",")
	}
	return []any{
		d.Name,
		d.Spec.AttachRequired == nil || *d.Spec.AttachRequired,
		cells.True(d.Spec.PodInfoOnMount), cells.True(d.Spec.StorageCapacity), tokens,
		cells.True(d.Spec.RequiresRepublish), cells.Or(strings.Join(modes, ","), cells.None), cells.Since(d.CreationTimestamp),
	}
}
