package rules

import (
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// parts are what names are put together of.
var parts = []string{
	"a", "b", "example", "com", "Z", "0", "9", "-", "_", ".", "/", "", "app.kubernetes.io/name", "é", "\u212a", " ", "\n", "\x00",
	strings.Repeat("a", 62), strings.Repeat("a", 63), strings.Repeat("a.", 126), "kubernetes", "orphan", "foregroundDeletion",
}

// What ValidateMeta lets pass the library lets pass, and what it refuses the library refuses with the same errors.
func TestValidateMetaAsLibrary(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	text := func() string {
		if r.IntN(3) > 0 {
			return parts[r.IntN(3)]
		}
		s := ""
		for range 1 + r.IntN(4) {
			s += parts[r.IntN(len(parts))]
		}
		return s
	}
	passed := 0
	for range 60_000 {
		m := &metav1.ObjectMeta{Name: text(), Generation: int64(r.IntN(12) - 1), Labels: map[string]string{text(): text()}, Annotations: map[string]string{text(): "x"}}
		if r.IntN(2) == 0 {
			m.Namespace = text()
		}
		switch r.IntN(8) {
		case 0:
			m.GenerateName = text()
		case 1:
			m.Finalizers = []string{text(), text()}
		case 2:
			for range 1 + r.IntN(2) {
				yes := r.IntN(2) == 0
				o := metav1.OwnerReference{APIVersion: text(), Kind: text(), Name: text(), UID: types.UID(text()), Controller: &yes}
				if r.IntN(4) == 0 {
					o.APIVersion, o.Kind = "v1", "Event"
				}
				m.OwnerReferences = append(m.OwnerReferences, o)
			}
		case 3:
			m.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: text(), Operation: []metav1.ManagedFieldsOperationType{"Apply", "Update", "x"}[r.IntN(3)],
				FieldsType: []string{"FieldsV1", "", "x"}[r.IntN(3)], Subresource: strings.Repeat(text(), 1+r.IntN(100))}}
		case 4:
			m.Annotations["a"] = strings.Repeat("x", validation.TotalAnnotationSizeLimitB-4+r.IntN(4))
		}
		namespaced := r.IntN(2) == 0
		got := ValidateMeta(m, namespaced, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
		want := validation.ValidateObjectMeta(m, namespaced, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
		if len(got) == 0 {
			passed++
		}
		if len(got) != len(want) || len(got) == 1 && got[0].Error() != want[0].Error() {
			t.Fatalf("%+v: %v, not %v", m, got, want)
		}
	}
	if passed < 5000 {
		t.Errorf("only %d were valid", passed)
	}
}

func BenchmarkValidateMeta(b *testing.B) {
	yes := true
	m := &metav1.ObjectMeta{Name: "web-7c9d8f6b5d-x2x4z", Namespace: "default", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-7c9d8f6b5d", UID: "1", Controller: &yes}},
		Labels:      map[string]string{"app.kubernetes.io/name": "web", "app.kubernetes.io/part-of": "shop", "pod-template-hash": "7c9d8f6b5d"},
		Annotations: map[string]string{"prometheus.io/scrape": "true", "checksum/config": "5f70bf18"}}
	b.Run("here", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ValidateMeta(m, true, validation.NameIsDNSSubdomain, metadata)
		}
	})
	b.Run("library", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			validation.ValidateObjectMeta(m, true, validation.NameIsDNSSubdomain, metadata)
		}
	})
}
