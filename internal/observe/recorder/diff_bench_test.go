package recorder

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BenchmarkCompare compares what the renewal of a lease has changed.
func BenchmarkCompare(b *testing.B) {
	lease := func(at int64) *coordinationv1.Lease {
		holder, now := "node-1", metav1.NewMicroTime(time.UnixMicro(at))
		stored := metav1.NewTime(time.Unix(at, 0))
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: "node-1", Namespace: "kube-node-lease", UID: "u", ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: "kubelet", Operation: "Update", APIVersion: "coordination.k8s.io/v1", Time: &stored, FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:holderIdentity":{},"f:renewTime":{}}}`)}}},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &now},
		}
	}
	old, obj := lease(1_000_000), lease(2_000_000)
	b.ReportAllocs()
	for b.Loop() {
		if f, _ := compare(old, obj, false); len(f) != 1 || f[0].Path != "spec.renewTime" {
			b.Fatal(f)
		}
	}
}
