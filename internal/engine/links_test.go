package engine

import (
	"encoding/json"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Links from protobuf and from JSON are equal to each other and to the
// object's.
func TestLinksOf(t *testing.T) {
	yes, now := true, metav1.Now()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "p", Namespace: "n", UID: "u", Labels: map[string]string{"finalizers": "ownerReferences"},
		DeletionTimestamp: &now, Finalizers: []string{metav1.FinalizerOrphanDependents, "example.com/hold"},
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: "1", BlockOwnerDeletion: &yes},
			{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "b", UID: "2", Controller: &yes},
		},
	}}
	plain := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}}
	for _, p := range []*corev1.Pod{pod, plain} {
		want := Links{UID: p.UID, Deleting: p.DeletionTimestamp != nil, Finalizers: p.Finalizers, Owners: p.OwnerReferences}
		raw, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		tm := typeMeta(schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range [][]byte{seal(tm, raw), text} {
			if got, err := LinksOf(value); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, %v; want %+v", got, err, want)
			}
		}
	}
	for _, bad := range []string{"", "{", "{}", "k8s\x00", "k8s\x00\x12\x02\x0a\xff", "nonsense"} {
		if l, err := LinksOf([]byte(bad)); err == nil {
			t.Errorf("%q has links %+v", bad, l)
		}
	}
}
