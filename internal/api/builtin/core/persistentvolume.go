package core

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func persistentVolumes(d Deps) *engine.Resource {
	now := func() *metav1.Time { return &metav1.Time{Time: d.Now()} }
	return &engine.Resource{
		Plural: "persistentvolumes", Kind: "PersistentVolume",
		ShortNames:    []string{"pv"},
		ReturnDeleted: true,
		Versions:      only(engine.VersionOf[corev1.PersistentVolume, corev1.PersistentVolumeList](v1, defaultPersistentVolume)),
		Rules: engine.Typed[*corev1.PersistentVolume]{
			StatusApart: true,
			PrepareCreate: func(_ context.Context, v *corev1.PersistentVolume) {
				v.Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumePending, LastPhaseTransitionTime: now()}
			},
			Validate: func(_ context.Context, v *corev1.PersistentVolume) field.ErrorList {
				return validatePersistentVolume(v, rules.VolumeOptions{})
			},
			Warn:           func(_ context.Context, v, _ *corev1.PersistentVolume) []string { return warnPersistentVolume(v) },
			ValidateUpdate: d.validatePersistentVolumeUpdate,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.Status(engine.Typed[*corev1.PersistentVolume]{
			PrepareUpdate: func(_ context.Context, v, old *corev1.PersistentVolume) {
				stampPhase(&v.Status, &old.Status, now)
			},
			ValidateUpdate: func(_ context.Context, v, old *corev1.PersistentVolume) field.ErrorList {
				return append(rules.ObjectMetaUpdate(&v.ObjectMeta, &old.ObjectMeta), rules.NeedsResourceVersion(&v.ObjectMeta)...)
			},
		})},
		Table: persistentVolumeTable(),
	}
}

// stampPhase sets the time when the phase changed, unless the client did.
func stampPhase(s, old *corev1.PersistentVolumeStatus, now func() *metav1.Time) {
	switch {
	case s.Phase == old.Phase && s.LastPhaseTransitionTime == nil:
		s.LastPhaseTransitionTime = old.LastPhaseTransitionTime
	case s.Phase != old.Phase && (s.LastPhaseTransitionTime == nil || s.LastPhaseTransitionTime.Equal(old.LastPhaseTransitionTime)):
		s.LastPhaseTransitionTime = now()
	}
}

func defaultPersistentVolume(v *corev1.PersistentVolume) {
	rules.Default(&v.Status.Phase, corev1.VolumePending)
	s := &v.Spec
	rules.Default(&s.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
	rules.DefaultPtr(&s.VolumeMode, corev1.PersistentVolumeFilesystem)
	rules.DefaultResources(s.Capacity)
	rules.DefaultPersistentVolumeSource(&s.PersistentVolumeSource)
}

func validatePersistentVolume(v *corev1.PersistentVolume, o rules.VolumeOptions) field.ErrorList {
	e := rules.At(nil)
	e.Add(rules.ObjectMeta(&v.ObjectMeta, false, rules.Subdomain))
	e.Add(rules.VolumeSpec(&v.Spec, v.Name, field.NewPath("spec"), o))
	if _, found := v.Annotations[corev1.MountOptionAnnotation]; found && !mountsWithOptions(&v.Spec) {
		e.Field("metadata").Field("annotations").Field(corev1.MountOptionAnnotation).Forbidden("not for this type of volume")
	}
	return e.List()
}

// mountsWithOptions reports whether the type of a volume supports mount options by annotation.
func mountsWithOptions(s *corev1.PersistentVolumeSpec) bool {
	return s.GCEPersistentDisk != nil || s.AWSElasticBlockStore != nil || s.Glusterfs != nil || s.NFS != nil || s.RBD != nil ||
		s.Quobyte != nil || s.ISCSI != nil || s.Cinder != nil || s.CephFS != nil || s.AzureFile != nil ||
		s.VsphereVolume != nil || s.AzureDisk != nil || s.PhotonPersistentDisk != nil
}

func (d Deps) validatePersistentVolumeUpdate(_ context.Context, v, old *corev1.PersistentVolume) field.ErrorList {
	var o rules.VolumeOptions
	if a := old.Spec.NodeAffinity; a != nil {
		o.AllowInvalidNodeAffinityValues = rules.InvalidNodeSelectorValues(a.Required)
	}
	e := rules.At(nil)
	e.Add(validatePersistentVolume(v, o))
	source := &v.Spec.PersistentVolumeSource
	if addsExpandSecret(source.CSI, old.Spec.CSI) {
		source = source.DeepCopy()
		source.CSI.ControllerExpandSecretRef = nil
	}
	if !apiequality.Semantic.DeepEqual(*source, old.Spec.PersistentVolumeSource) {
		e.Field("spec").Field("persistentvolumesource").Forbidden("spec.persistentvolumesource is immutable after creation\n" +
			diff.Diff(old.Spec.PersistentVolumeSource, *source))
	}
	e.Add(rules.Immutable(v.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode")))
	if !d.Pods.Gates.Enabled(features.MutablePVNodeAffinity) && old.Spec.NodeAffinity != nil && !sameButLabelNames(v.Spec.NodeAffinity, old.Spec.NodeAffinity) {
		e.Field("nodeAffinity").Invalid(v.Spec.NodeAffinity, "field is immutable, except for updating from beta label to GA")
	}
	if old.Spec.VolumeAttributesClassName != nil && v.Spec.VolumeAttributesClassName == nil {
		e.Field("spec").Field("volumeAttributesClassName").Forbidden("update from non-nil value to nil is forbidden")
	}
	return e.List()
}

// addsExpandSecret reports whether an update adds the expansion secret to a CSI volume, which is allowed.
func addsExpandSecret(v, old *corev1.CSIPersistentVolumeSource) bool {
	return v != nil && old != nil && v.ControllerExpandSecretRef != nil && old.ControllerExpandSecretRef == nil
}

// stableLabels maps beta node labels to their stable names.
var stableLabels = map[string]string{
	corev1.LabelFailureDomainBetaZone:   corev1.LabelTopologyZone,
	corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
	"beta.kubernetes.io/os":             corev1.LabelOSStable,
	"beta.kubernetes.io/arch":           corev1.LabelArchStable,
	corev1.LabelInstanceType:            corev1.LabelInstanceTypeStable,
}

// sameButLabelNames reports whether a equals old except that beta labels may have become stable ones.
func sameButLabelNames(a, old *corev1.VolumeNodeAffinity) bool {
	if apiequality.Semantic.DeepEqual(a, old) {
		return true
	}
	if a == nil || a.Required == nil || old.Required == nil || len(a.Required.NodeSelectorTerms) != len(old.Required.NodeSelectorTerms) {
		return false
	}
	renamed := old.DeepCopy()
	for i, t := range renamed.Required.NodeSelectorTerms {
		asked := a.Required.NodeSelectorTerms[i]
		for _, pair := range [][2][]corev1.NodeSelectorRequirement{
			{t.MatchExpressions, asked.MatchExpressions}, {t.MatchFields, asked.MatchFields},
		} {
			for j := range pair[0] {
				if j < len(pair[1]) && stableLabels[pair[0][j].Key] == pair[1][j].Key {
					pair[0][j].Key = pair[1][j].Key
				}
			}
		}
	}
	return apiequality.Semantic.DeepEqual(a, renamed)
}

func warnPersistentVolume(v *corev1.PersistentVolume) []string {
	var out []string
	s, spec := &v.Spec, field.NewPath("spec")
	for _, d := range []struct {
		used bool
		at   *field.Path
		text string
	}{
		{hasKey(v.Annotations, corev1.BetaStorageClassAnnotation), annotationPath(corev1.BetaStorageClassAnnotation), `deprecated since v1.8; use "storageClassName" attribute instead`},
		{hasKey(v.Annotations, corev1.MountOptionAnnotation), annotationPath(corev1.MountOptionAnnotation), `deprecated since v1.31; use "mountOptions" attribute instead`},
		{s.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle, spec.Child("persistentVolumeReclaimPolicy"), "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning."},
		{s.CephFS != nil, spec.Child("cephfs"), "deprecated in v1.28, non-functional in v1.31+"},
		{s.PhotonPersistentDisk != nil, spec.Child("photonPersistentDisk"), "deprecated in v1.11, non-functional in v1.16+"},
		{s.ScaleIO != nil, spec.Child("scaleIO"), "deprecated in v1.16, non-functional in v1.22+"},
		{s.StorageOS != nil, spec.Child("storageOS"), "deprecated in v1.22, non-functional in v1.25+"},
		{s.Glusterfs != nil, spec.Child("glusterfs"), "deprecated in v1.25, non-functional in v1.26+"},
		{s.RBD != nil, spec.Child("rbd"), "deprecated in v1.28, non-functional in v1.31+"},
	} {
		if d.used {
			out = append(out, d.at.String()+": "+d.text)
		}
	}
	if a := s.NodeAffinity; a != nil && a.Required != nil {
		terms := spec.Child("nodeAffinity", "required", "nodeSelectorTerms")
		for i := range a.Required.NodeSelectorTerms {
			out = append(out, rules.WarnNodeSelectorTerm(&a.Required.NodeSelectorTerms[i], false, terms.Index(i))...)
		}
	}
	return out
}

func hasKey(m map[string]string, key string) bool {
	_, found := m[key]
	return found
}

func annotationPath(key string) *field.Path { return field.NewPath("metadata", "annotations").Key(key) }
