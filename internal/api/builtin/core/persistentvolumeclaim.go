package core

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func persistentVolumeClaims() *engine.Resource {
	return &engine.Resource{
		Plural: "persistentvolumeclaims", Kind: "PersistentVolumeClaim",
		ShortNames:    []string{"pvc"},
		Namespaced:    true,
		ReturnDeleted: true,
		Versions:      only(engine.VersionOf[corev1.PersistentVolumeClaim, corev1.PersistentVolumeClaimList](v1, defaultClaim)),
		Rules: engine.Typed[*corev1.PersistentVolumeClaim]{
			StatusApart: true,
			PrepareCreate: func(_ context.Context, c *corev1.PersistentVolumeClaim) {
				c.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
				alignDataSource(&c.Spec, nil)
			},
			Validate: func(_ context.Context, c *corev1.PersistentVolumeClaim) field.ErrorList {
				return validateClaim(c, rules.ClaimOptions{})
			},
			Warn: func(_ context.Context, c, _ *corev1.PersistentVolumeClaim) []string { return warnClaim(c) },
			PrepareUpdate: func(_ context.Context, c, old *corev1.PersistentVolumeClaim) {
				alignDataSource(&c.Spec, &old.Spec)
			},
			ValidateUpdate: validateClaimUpdate,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.Status(engine.Typed[*corev1.PersistentVolumeClaim]{
			ValidateUpdate: validateClaimStatus,
		})},
		Table: persistentVolumeClaimTable(),
	}
}

func defaultClaim(c *corev1.PersistentVolumeClaim) {
	rules.Default(&c.Status.Phase, corev1.ClaimPending)
	rules.DefaultClaimSpec(&c.Spec)
	rules.DefaultResources(c.Status.Capacity, c.Status.AllocatedResources)
}

// alignDataSource makes dataSource and dataSourceRef agree. dataSource accepts claims and snapshots, and silently
// drops anything else; dataSourceRef accepts any object. Each sets the other. Sources in other namespaces are disabled.
func alignDataSource(spec, old *corev1.PersistentVolumeClaimSpec) {
	if ref := spec.DataSourceRef; ref != nil && ref.Namespace != nil && *ref.Namespace != "" &&
		(old == nil || old.DataSourceRef == nil) {
		spec.DataSourceRef = nil
	}
	inUse := old != nil && (old.DataSource != nil || old.DataSourceRef != nil)
	if !inUse && spec.DataSourceRef == nil && !isClaimOrSnapshot(spec.DataSource) {
		spec.DataSource = nil
	}
	mirrorDataSource(spec)
}

func isClaimOrSnapshot(s *corev1.TypedLocalObjectReference) bool {
	if s == nil {
		return false
	}
	group := ""
	if s.APIGroup != nil {
		group = *s.APIGroup
	}
	return s.Kind == "PersistentVolumeClaim" && group == "" ||
		s.Kind == "VolumeSnapshot" && group == "snapshot.storage.k8s.io"
}

func mirrorDataSource(spec *corev1.PersistentVolumeClaimSpec) {
	switch source, ref := spec.DataSource, spec.DataSourceRef; {
	case source != nil && ref == nil:
		spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: source.APIGroup, Kind: source.Kind, Name: source.Name}
	case source == nil && ref != nil && (ref.Namespace == nil || *ref.Namespace == ""):
		spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: ref.APIGroup, Kind: ref.Kind, Name: ref.Name}
	}
}
