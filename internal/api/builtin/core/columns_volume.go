package core

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells"
	"github.com/kanzen-io/kanzen/internal/engine"
)

func persistentVolumeTable() *engine.Table {
	spec, status := corev1.PersistentVolumeSpec{}.SwaggerDoc(), corev1.PersistentVolumeStatus{}.SwaggerDoc()
	return engine.TableOf(persistentVolumeRow,
		cells.Name(),
		cells.String("Capacity", spec["capacity"]),
		cells.String("Access Modes", spec["accessModes"]),
		cells.String("Reclaim Policy", spec["persistentVolumeReclaimPolicy"]),
		cells.String("Status", status["phase"]),
		cells.String("Claim", spec["claimRef"]),
		cells.String("StorageClass", "The volume's StorageClass."),
		cells.String("VolumeAttributesClass", "The volume's VolumeAttributesClass."),
		cells.String("Reason", status["reason"]),
		cells.Age(),
		cells.Wide(cells.String("VolumeMode", spec["volumeMode"])),
	)
}

func persistentVolumeRow(v *corev1.PersistentVolume) []any {
	claim := ""
	if ref := v.Spec.ClaimRef; ref != nil {
		claim = ref.Namespace + "/" + ref.Name
	}
	return []any{
		v.Name, v.Spec.Capacity.Storage().String(), accessModes(v.Spec.AccessModes),
		string(v.Spec.PersistentVolumeReclaimPolicy), phaseText(v.DeletionTimestamp, string(v.Status.Phase)), claim,
		storageClass(v.Annotations, v.Spec.StorageClassName),
		cells.Deref(v.Spec.VolumeAttributesClassName, cells.Unset), v.Status.Reason,
		cells.Since(v.CreationTimestamp), cells.Deref(v.Spec.VolumeMode, cells.Unset),
	}
}

func persistentVolumeClaimTable() *engine.Table {
	spec, status := corev1.PersistentVolumeClaimSpec{}.SwaggerDoc(), corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()
	return engine.TableOf(persistentVolumeClaimRow,
		cells.Name(),
		cells.String("Status", status["phase"]),
		cells.String("Volume", spec["volumeName"]),
		cells.String("Capacity", status["capacity"]),
		cells.String("Access Modes", status["accessModes"]),
		cells.String("StorageClass", "The claim's StorageClass."),
		cells.String("VolumeAttributesClass", "The claim's VolumeAttributesClass."),
		cells.Age(),
		cells.Wide(cells.String("VolumeMode", spec["volumeMode"])),
	)
}

func persistentVolumeClaimRow(c *corev1.PersistentVolumeClaim) []any {
	capacity, modes := "", ""
	if c.Spec.VolumeName != "" { // bound: show the actual values, not the requested ones
		capacity, modes = c.Status.Capacity.Storage().String(), accessModes(c.Status.AccessModes)
	}
	return []any{
		c.Name, phaseText(c.DeletionTimestamp, string(c.Status.Phase)), c.Spec.VolumeName, capacity, modes,
		storageClass(c.Annotations, cells.Deref(c.Spec.StorageClassName, "")),
		cells.Deref(c.Spec.VolumeAttributesClassName, cells.Unset),
		cells.Since(c.CreationTimestamp), cells.Deref(c.Spec.VolumeMode, cells.Unset),
	}
}

func phaseText(deleted *metav1.Time, phase string) string {
	if deleted != nil {
		return "Terminating"
	}
	return phase
}

// storageClass returns the class in the old annotation, which takes precedence, or in the field.
func storageClass(annotations map[string]string, name string) string {
	if class, ok := annotations[corev1.BetaStorageClassAnnotation]; ok {
		return class
	}
	return name
}

// accessModes returns the modes' short names in a fixed order.
func accessModes(modes []corev1.PersistentVolumeAccessMode) string {
	var texts []string
	for _, m := range []struct {
		mode corev1.PersistentVolumeAccessMode
		text string
	}{
		{corev1.ReadWriteOnce, "RWO"},
		{corev1.ReadOnlyMany, "ROX"},
		{corev1.ReadWriteMany, "RWX"},
		{corev1.ReadWriteOncePod, "RWOP"},
	} {
		if slices.Contains(modes, m.mode) {
			texts = append(texts, m.text)
		}
	}
	return strings.Join(texts, ",")
}
