package rules

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An update of metadata gets the errors that the library has for it.
func TestMetaUpdateAsLibrary(t *testing.T) {
	begun := metav1.NewTime(time.Unix(1, 0))
	grace, yes := int64(1), true
	for name, change := range map[string]func(m, old *metav1.ObjectMeta){
		"nothing":     func(_, _ *metav1.ObjectMeta) {},
		"name":        func(m, _ *metav1.ObjectMeta) { m.Name = "b" },
		"namespace":   func(m, _ *metav1.ObjectMeta) { m.Namespace = "b" },
		"uid":         func(m, _ *metav1.ObjectMeta) { m.UID = types.UID("b") },
		"no revision": func(m, _ *metav1.ObjectMeta) { m.ResourceVersion = "" },
		"generation":  func(m, _ *metav1.ObjectMeta) { m.Generation-- },
		"creation":    func(m, _ *metav1.ObjectMeta) { m.CreationTimestamp = begun },
		"creation elsewhere": func(m, _ *metav1.ObjectMeta) {
			m.CreationTimestamp.Time = m.CreationTimestamp.In(time.FixedZone("east", 3600))
		},
		"deletion":  func(m, _ *metav1.ObjectMeta) { m.DeletionTimestamp = &begun },
		"undeleted": func(_, old *metav1.ObjectMeta) { old.DeletionTimestamp = &begun },
		"grace":     func(m, _ *metav1.ObjectMeta) { m.DeletionGracePeriodSeconds = &grace },
		"no grace":  func(_, old *metav1.ObjectMeta) { old.DeletionGracePeriodSeconds = &grace },
		"late finalizer": func(m, old *metav1.ObjectMeta) {
			m.DeletionTimestamp, old.DeletionTimestamp, m.Finalizers = &begun, &begun, []string{"example.com/a"}
		},
		"labels":      func(m, _ *metav1.ObjectMeta) { m.Labels = map[string]string{"-": "-"} },
		"annotations": func(m, _ *metav1.ObjectMeta) { m.Annotations = map[string]string{"-": ""} },
		"owners": func(m, _ *metav1.ObjectMeta) {
			m.OwnerReferences = []metav1.OwnerReference{{Controller: &yes}, {Controller: &yes}}
		},
		"managers": func(m, _ *metav1.ObjectMeta) {
			m.ManagedFields = []metav1.ManagedFieldsEntry{{Operation: "Other", FieldsType: "V0"}}
		},
	} {
		old := &metav1.ObjectMeta{Name: "a", Namespace: "n", UID: "u", ResourceVersion: "1", Generation: 2, CreationTimestamp: metav1.NewTime(time.Unix(5, 0))}
		m := old.DeepCopy()
		change(m, old)
		got, want := metaUpdate(m, old), validation.ValidateObjectMetaUpdate(m, old, metadata)
		if got.ToAggregate() == nil && want.ToAggregate() == nil {
			if name != "nothing" && name != "creation elsewhere" {
				t.Errorf("%s: no errors", name)
			}
			continue
		}
		if got.ToAggregate() == nil || want.ToAggregate() == nil || got.ToAggregate().Error() != want.ToAggregate().Error() {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}
