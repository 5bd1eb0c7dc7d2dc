package rules

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	accessModes = []corev1.PersistentVolumeAccessMode{
		corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod,
	}
	volumeModes = []corev1.PersistentVolumeMode{corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem}
)

// ClaimOptions relax rules for stored claims.
type ClaimOptions struct {
	AllowInvalidSelector bool
	AllowInvalidAPIGroup bool
}

// ClaimSpec validates the spec of a claim.
func ClaimSpec(s *corev1.PersistentVolumeClaimSpec, e Errors, o ClaimOptions) {
	accessModesOf(s.AccessModes, "at least 1 access mode is required", e)
	e.LabelSelector("selector", s.Selector, o.AllowInvalidSelector)
	storage := e.Field("resources").Key(string(corev1.ResourceStorage))
	if q, found := s.Resources.Requests[corev1.ResourceStorage]; found {
		storage.PositiveQuantity(q)
	} else {
		storage.Required("")
	}
	if c := s.StorageClassName; c != nil && *c != "" {
		e.Name("storageClassName", *c, Subdomain)
	}
	if s.VolumeMode != nil {
		OneOf(e, "volumeMode", *s.VolumeMode, volumeModes)
	}
	dataSources(s, e, o)
	if c := s.VolumeAttributesClassName; c != nil && *c != "" {
		e.Name("volumeAttributesClassName", *c, Subdomain)
	}
}

// accessModesOf validates the access modes of a claim or volume; none is said if there are none. ReadWriteOncePod excludes all others.
func accessModesOf(modes []corev1.PersistentVolumeAccessMode, none string, e Errors) {
	if len(modes) == 0 {
		e.Field("accessModes").Required(none)
	}
	single, others := false, false
	for _, m := range modes {
		OneOf(e, "accessModes", m, accessModes)
		single = single || m == corev1.ReadWriteOncePod
		others = others || m != corev1.ReadWriteOncePod && slices.Contains(accessModes, m)
	}
	if single && others {
		e.Field("accessModes").Forbidden("may not use ReadWriteOncePod with other access modes")
	}
}

func dataSources(s *corev1.PersistentVolumeClaimSpec, e Errors, o ClaimOptions) {
	source, ref := s.DataSource, s.DataSourceRef
	if source != nil {
		typedReference(source.APIGroup, source.Kind, source.Name, e.Field("dataSource"), o)
	}
	if ref == nil {
		return
	}
	typedReference(ref.APIGroup, ref.Kind, ref.Name, e.Field("dataSourceRef"), o)
	elsewhere := ref.Namespace != nil && *ref.Namespace != ""
	if elsewhere {
		e.Field("dataSourceRef").Name("namespace", *ref.Namespace, NamespaceName)
	}
	if source == nil {
		return
	}
	if elsewhere {
		e.Invalid("dataSource", "may not be set beside dataSourceRef.namespace")
	} else if !reflect.DeepEqual(source.APIGroup, ref.APIGroup) || source.Kind != ref.Kind || source.Name != ref.Name {
		e.Invalid(source, "must match dataSourceRef")
	}
}

func typedReference(group *string, kind, name string, e Errors, o ClaimOptions) {
	e.Present("name", name)
	e.Present("kind", kind)
	if group == nil || *group == "" {
		if kind != "PersistentVolumeClaim" {
			e.Invalid(kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
		}
	} else if !o.AllowInvalidAPIGroup {
		e.DNSSubdomain("apiGroup", *group)
	}
}

// ClaimTemplate validates a template of claims.
func ClaimTemplate(t *corev1.PersistentVolumeClaimTemplate, e Errors) {
	TemplateMeta(&t.ObjectMeta, e.Field("metadata"))
	ClaimSpec(&t.Spec, e.Field("spec"), ClaimOptions{})
}

// TemplateMeta validates the metadata of a template: only labels and annotations are copied to the created objects.
func TemplateMeta(m *metav1.ObjectMeta, e Errors) {
	e.Annotations("annotations", m.Annotations)
	e.Labels("labels", m.Labels)
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"name", m.Name != ""},
		{"generateName", m.GenerateName != ""},
		{"namespace", m.Namespace != ""},
		//lint:ignore SA1019 a client may still send it
		{"selfLink", m.SelfLink != ""},
		{"uID", m.UID != ""},
		{"resourceVersion", m.ResourceVersion != ""},
		{"generation", m.Generation != 0},
		{"creationTimestamp", !m.CreationTimestamp.IsZero()},
		{"deletionTimestamp", m.DeletionTimestamp != nil},
		{"deletionGracePeriodSeconds", m.DeletionGracePeriodSeconds != nil},
		{"ownerReferences", m.OwnerReferences != nil},
		{"finalizers", m.Finalizers != nil},
		{"managedFields", m.ManagedFields != nil},
	} {
		if f.set {
			e.Field(f.name).Forbidden("may not be set in a template")
		}
	}
}

// WarnClaimSpec returns the warnings about the spec of a claim.
func WarnClaimSpec(s *corev1.PersistentVolumeClaimSpec, path *field.Path) []string {
	var out []string
	for _, list := range []struct {
		name  string
		items corev1.ResourceList
	}{{"requests", s.Resources.Requests}, {"limits", s.Resources.Limits}} {
		if q, found := list.items[corev1.ResourceStorage]; found && !IsWhole(q) {
			out = append(out, WarnFraction(path.Child("resources", list.name).Key(string(corev1.ResourceStorage)), q.String()))
		}
	}
	return out
}

// WarnFraction returns the warning about a fractional number of bytes.
func WarnFraction(path *field.Path, value string) string {
	return path.String() + ": " + value + " is a fraction of a byte, must be an integer"
}
